import { ErrorReason, type GatewayError, gatewayError, invalidRequest } from '#shared/errors.ts';
import { isObject } from '#shared/is-object.ts';
import { fieldSet, ObjectScan } from '../bytes/json-scan.ts';

/** An event of a realtime client, as far as the gateway reads it. */
export type ClientEvent = {
  /** The client's own id for it; null when it gave none. */
  eventId: string | null;
} & (
  | { type: 'update'; session: unknown; shape: 'ga' | 'beta' }
  | { type: 'append'; audio: Buffer }
  | { type: 'commit' }
  | { type: 'clear' }
);

/** The most audio in one append, in bytes of base64: 15 MiB of audio (openai-contract.md section 5). */
const appendBase64Max = 20 * 1024 * 1024;

/** The most that an event may have beside its audio, in bytes: a session keeps its configuration, and repeats it with each update. */
const besideAudioMax = 64 * 1024;
const audioField = fieldSet('audio');
/** More names or elements cannot fit into that. */
const longEventLimits = { names: besideAudioMax, elements: besideAudioMax };

const idLengthMax = 512;

/** The client's own id of an event, even if the event is otherwise invalid, so that the error can name it. */
export function eventIdOf(json: unknown): string | null {
  const { event_id: id } = (json ?? {}) as { event_id?: unknown };
  if (typeof id !== 'string') return null;
  // A copy: a slice would keep all of a long id in memory, for each event that waits for its answer.
  return id.length <= idLengthMax ? id : Buffer.from(id.slice(0, idLengthMax), 'utf16le').toString('utf16le');
}

/** Parses an event. Throws INVALID_REQUEST when it is not JSON, and REQUEST_TOO_LARGE when more than its audio is long. */
export function parseEvent(text: string): unknown {
  if (text.length > besideAudioMax) boundLongEvent(text);
  try {
    return JSON.parse(text);
  } catch {
    throw notJson();
  }
}

/** Checks how long an event is without its audio: parsing whatever fits into such a long text can take seconds. */
function boundLongEvent(text: string): void {
  const bytes = Buffer.from(text);
  const scan = new ObjectScan(audioField);
  const problem = scan.read(bytes, 0, bytes.length, longEventLimits);
  if (problem === 'syntax') throw notJson();
  const audioBytes = problem === null && scan.kind('audio') === 'string' ? scan.valueBytes('audio') : 0;
  if (bytes.length - audioBytes > besideAudioMax) {
    throw gatewayError(ErrorReason.REQUEST_TOO_LARGE, 'An event may have at most 64 KiB besides its `audio`.');
  }
}

/** Reads an event. Throws INVALID_REQUEST naming the field. */
export function readClientEvent(event: unknown): ClientEvent {
  if (!isObject(event)) throw invalidRequest(undefined, 'An event must be a JSON object.', 'invalid_event');
  const eventId = eventIdOf(event);
  switch (event.type) {
    case 'session.update':
      return { type: 'update', session: event.session, shape: 'ga', eventId };
    case 'transcription_session.update':
      return { type: 'update', session: event.session, shape: 'beta', eventId };
    case 'input_audio_buffer.append':
      return { type: 'append', audio: readAudio(event.audio), eventId };
    case 'input_audio_buffer.commit':
      return { type: 'commit', eventId };
    case 'input_audio_buffer.clear':
      return { type: 'clear', eventId };
    default: {
      const type = typeof event.type === 'string' ? event.type.slice(0, 100) : '';
      throw invalidRequest(
        'type',
        `Invalid value: '${type}'. Supported events are: session.update, transcription_session.update, ` +
          'input_audio_buffer.append, input_audio_buffer.commit and input_audio_buffer.clear.',
        'invalid_value',
      );
    }
  }
}

function readAudio(audio: unknown): Buffer {
  if (typeof audio !== 'string') throw notBase64();
  if (audio.length > appendBase64Max) {
    throw invalidRequest('audio', 'At most 15 MiB of audio can be appended at once.', 'string_above_max_length');
  }
  const bytes = Buffer.from(audio, 'base64');
  // Node skips characters that are not base64, or stops at them.
  if (bytes.toString('base64') !== audio) throw notBase64();
  return bytes;
}

const notBase64 = (): GatewayError => invalidRequest('audio', '`audio` must be base64.', 'invalid_value');

const notJson = (): GatewayError => invalidRequest(undefined, 'The event is not valid JSON.', 'invalid_event');
