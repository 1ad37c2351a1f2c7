import { expect, test } from 'vitest';
import { betaSession, gaSession, initialConfig, type SessionConfig, updatedConfig } from './session-config.ts';

const updated = (...sessions: object[]): SessionConfig => sessions.reduce(updatedConfig, initialConfig);
const detecting = (detection: object): SessionConfig => updated({ audio: { input: { turn_detection: detection } } });

test.each([
  ['pcm16', { type: 'audio/pcm', rate: 24_000 }],
  ['g711_ulaw', { type: 'audio/pcmu' }],
  ['g711_alaw', { type: 'audio/pcma' }],
])('%s of the beta shape is the same format in both shapes', (name, format) => {
  const config = updated(
    { audio: { input: { format: { type: 'audio/pcm', rate: 16_000 } } } },
    { input_audio_format: name },
  );
  expect(gaSession(config).audio.input.format).toEqual(format);
  expect(betaSession(config).input_audio_format).toBe(name);
});

test('an upstream gets what was configured in the beta shape, and keeps what the next update does not mention', () => {
  const config = updated(
    {
      input_audio_format: 'g711_alaw',
      input_audio_transcription: { model: 'one', language: 'en' },
      input_audio_noise_reduction: { type: 'near_field' },
      turn_detection: { threshold: 0.7 },
      include: ['item.input_audio_transcription.logprobs'],
    },
    { input_audio_transcription: { language: 'de' } },
    { audio: {} },
  );
  expect(gaSession(config, 'upstream-one')).toEqual({
    type: 'transcription',
    audio: {
      input: {
        format: { type: 'audio/pcma' },
        transcription: { model: 'upstream-one', language: 'de' },
        noise_reduction: { type: 'near_field' },
        turn_detection: { type: 'server_vad', threshold: 0.7, prefix_padding_ms: 300, silence_duration_ms: 500 },
      },
    },
    include: ['item.input_audio_transcription.logprobs'],
  });
  expect(
    gaSession(updated({ input_audio_transcription: { model: 'one' } }, { input_audio_transcription: null })),
  ).toMatchObject({ audio: { input: { transcription: { model: 'one' } } } });
});

test('a model in another case is refused, since an upstream might read it', () => {
  const named = (transcription: object) => () => updated({ audio: { input: { transcription } } });
  for (const transcription of [{ model: 'one', Model: 'two' }, { MODEL: 'two' }]) {
    expect(named(transcription)).toThrow('`session.audio.input.transcription.model` is given more than once.');
  }
});

test('an upstream gets a turn detection that only it understands in the client’s words', () => {
  const detection = { type: 'semantic_vad', eagerness: 'low' };
  expect(gaSession(detecting(detection)).audio.input.turn_detection).toEqual(detection);
});

test.each([
  [{ type: 'other' }, 'type'],
  [{ threshold: 1.01 }, 'threshold'],
  [{ threshold: '0.5' }, 'threshold'],
  [{ prefix_padding_ms: 5_001 }, 'prefix_padding_ms'],
  [{ silence_duration_ms: -1 }, 'silence_duration_ms'],
])('the turn detection %j is refused, naming the field', (detection, field) => {
  expect(() => detecting(detection)).toThrow(
    expect.objectContaining({
      details: { param: `session.audio.input.turn_detection.${field}`, code: 'invalid_value' },
    }),
  );
});
