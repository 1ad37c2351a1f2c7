import { type GatewayError, invalidRequest, invalidValue } from '#shared/errors.ts';
import { isObject } from '#shared/is-object.ts';

/** How audio is encoded; one channel each. */
export type AudioFormat = { type: 'audio/pcm'; rate: number } | { type: 'audio/pcmu' } | { type: 'audio/pcma' };

/** How the gateway or its upstream cuts speech into utterances. */
export type TurnDetection = {
  type: 'server_vad' | 'semantic_vad';
  /** From 0 to 1: how loud speech must be. */
  threshold: number;
  prefixPaddingMs: number;
  silenceDurationMs: number;
};

type Json = Record<string, unknown>;

/** A transcription session as its client configured it (openai-contract.md section 5). */
export type SessionConfig = {
  format: AudioFormat;
  /** As the client wrote it, except for `model`, which is present once one was named. */
  transcription: Json | null;
  noiseReduction: unknown;
  /** Null: the client commits utterances itself. */
  turnDetection: TurnDetection | null;
  /** As the client wrote it, for an upstream that supports more of it. */
  turnDetectionJson: unknown;
  include: unknown;
};

const defaultTurnDetection: TurnDetection = {
  type: 'server_vad',
  threshold: 0.5,
  prefixPaddingMs: 300,
  silenceDurationMs: 500,
};

const turnDetectionJson = (detection: TurnDetection): Json => ({
  type: detection.type,
  threshold: detection.threshold,
  prefix_padding_ms: detection.prefixPaddingMs,
  silence_duration_ms: detection.silenceDurationMs,
});

export const initialConfig: SessionConfig = {
  format: { type: 'audio/pcm', rate: 24_000 },
  transcription: null,
  noiseReduction: null,
  turnDetection: defaultTurnDetection,
  turnDetectionJson: turnDetectionJson(defaultTurnDetection),
  include: null,
};

/** The model that a configuration names; empty until one is named. */
export const modelOf = ({ transcription }: SessionConfig): string => String(transcription?.model ?? '');

/** Bytes of the prompt sent with each utterance. */
export const promptBytesOf = ({ transcription }: SessionConfig): number =>
  Buffer.byteLength(JSON.stringify(transcription));

/** The configuration after an update. What the update does not mention stays. Throws INVALID_REQUEST naming the field. */
export function updatedConfig(config: SessionConfig, session: unknown): SessionConfig {
  if (!isObject(session)) throw invalid('session', 'an object');
  if (session.type !== undefined && session.type !== 'transcription') {
    throw invalidRequest('session.type', 'Only sessions of type `transcription` are supported.');
  }
  return isBeta(session) ? withBeta(config, session) : withGa(config, session);
}

/** The fields of the shape before 2026; accepted from clients, never sent to an upstream. */
const betaFields = ['input_audio_format', 'input_audio_transcription', 'input_audio_noise_reduction', 'turn_detection'];
const isBeta = (session: Json): boolean => betaFields.some((field) => field in session);

function withGa(config: SessionConfig, session: Json): SessionConfig {
  const audio = session.audio ?? {};
  if (!isObject(audio)) throw invalid('session.audio', 'an object');
  const input = audio.input ?? {};
  if (!isObject(input)) throw invalid('session.audio.input', 'an object');
  const at = 'session.audio.input.';
  return {
    format: input.format === undefined ? config.format : readFormat(input.format, `${at}format`),
    transcription:
      input.transcription === undefined
        ? config.transcription
        : readTranscription(config, input.transcription, `${at}transcription`),
    noiseReduction: input.noise_reduction === undefined ? config.noiseReduction : input.noise_reduction,
    ...turnDetectionAfter(config, input.turn_detection, `${at}turn_detection`),
    include: session.include === undefined ? config.include : session.include,
  };
}

const betaFormats: Readonly<Record<string, AudioFormat>> = {
  pcm16: { type: 'audio/pcm', rate: 24_000 },
  g711_ulaw: { type: 'audio/pcmu' },
  g711_alaw: { type: 'audio/pcma' },
};

function withBeta(config: SessionConfig, session: Json): SessionConfig {
  const format = session.input_audio_format;
  if (format !== undefined && (typeof format !== 'string' || !Object.hasOwn(betaFormats, format))) {
    throw invalid('session.input_audio_format', 'pcm16, g711_ulaw or g711_alaw');
  }
  const { input_audio_transcription: transcription, input_audio_noise_reduction: noise } = session;
  return {
    format: format === undefined ? config.format : betaFormats[format]!,
    transcription:
      transcription === undefined
        ? config.transcription
        : readTranscription(config, transcription, 'session.input_audio_transcription'),
    noiseReduction: noise === undefined ? config.noiseReduction : noise,
    ...turnDetectionAfter(config, session.turn_detection, 'session.turn_detection'),
    include: session.include === undefined ? config.include : session.include,
  };
}

function readFormat(value: unknown, param: string): AudioFormat {
  const format = isObject(value) ? value : {};
  switch (format.type) {
    case 'audio/pcmu':
    case 'audio/pcma':
      return { type: format.type };
    case 'audio/pcm': {
      const rate = format.rate ?? 24_000;
      if (!Number.isInteger(rate) || (rate as number) < 8_000 || (rate as number) > 48_000) {
        throw invalid(`${param}.rate`, 'a whole number from 8000 to 48000');
      }
      return { type: 'audio/pcm', rate: rate as number };
    }
    default:
      throw invalid(param, '`audio/pcm`, `audio/pcmu` or `audio/pcma`');
  }
}

/** Replaces what was there; the model stays if the update names none. */
function readTranscription(config: SessionConfig, value: unknown, param: string): Json | null {
  if (value === null) return config.transcription === null ? null : { model: modelOf(config) };
  if (!isObject(value)) throw invalid(param, 'an object');
  // An upstream written in Go would use the model of a `Model` as well.
  if (Object.keys(value).some((name) => name !== 'model' && name.toLowerCase() === 'model')) {
    throw invalidRequest(`${param}.model`, `\`${param}.model\` is given more than once.`, 'duplicate_field');
  }
  const { model = config.transcription?.model } = value;
  if (model !== undefined && (typeof model !== 'string' || model === '' || model.length > 255)) {
    throw invalid(`${param}.model`, 'the name of a model');
  }
  return model === undefined ? value : { ...value, model };
}

function turnDetectionAfter(
  config: SessionConfig,
  value: unknown,
  param: string,
): Pick<SessionConfig, 'turnDetection' | 'turnDetectionJson'> {
  if (value === undefined) return { turnDetection: config.turnDetection, turnDetectionJson: config.turnDetectionJson };
  if (value === null) return { turnDetection: null, turnDetectionJson: null };
  if (!isObject(value)) throw invalid(param, 'an object or null');
  const { type = 'server_vad' } = value;
  if (type !== 'server_vad' && type !== 'semantic_vad') {
    throw invalid(`${param}.type`, '`server_vad` or `semantic_vad`');
  }
  const number = (name: string, fallback: number, max: number): number => {
    const given = value[name] ?? fallback;
    if (typeof given !== 'number' || !(given >= 0 && given <= max)) {
      throw invalid(`${param}.${name}`, `a number from 0 to ${max}`);
    }
    return given;
  };
  const turnDetection: TurnDetection = {
    type,
    threshold: number('threshold', defaultTurnDetection.threshold, 1),
    prefixPaddingMs: number('prefix_padding_ms', defaultTurnDetection.prefixPaddingMs, 5_000),
    silenceDurationMs: number('silence_duration_ms', defaultTurnDetection.silenceDurationMs, 10_000),
  };
  const json = type === 'server_vad' ? { ...value, ...turnDetectionJson(turnDetection) } : { ...value, type };
  return { turnDetection, turnDetectionJson: json };
}

/** A session in the form of GA events; for an upstream, with its own name of the model. */
export const gaSession = (config: SessionConfig, model = modelOf(config)) => ({
  type: 'transcription',
  audio: {
    input: {
      format: config.format,
      transcription: config.transcription === null ? null : { ...config.transcription, ...(model && { model }) },
      noise_reduction: config.noiseReduction ?? null,
      turn_detection: config.turnDetectionJson,
    },
  },
  ...(Array.isArray(config.include) && { include: config.include }),
});

/** A session in the form of beta events. */
export const betaSession = (config: SessionConfig) => ({
  input_audio_format:
    config.format.type === 'audio/pcm' ? 'pcm16' : config.format.type === 'audio/pcmu' ? 'g711_ulaw' : 'g711_alaw',
  input_audio_transcription: config.transcription,
  input_audio_noise_reduction: config.noiseReduction ?? null,
  turn_detection: config.turnDetectionJson,
  include: config.include ?? null,
});

const invalid = (param: string, expected: string): GatewayError => invalidValue(param, `expected ${expected}`);
