import type { Api } from '../../api/client.ts';
import { ApiError } from '../../api/error.ts';

/** An utterance, as far as it is transcribed. */
export type Line = { id: string; text: string; final: boolean };

/** What arrives while audio is sent. */
type TranscriptEvents = {
  /** The utterances of which something is known so far, in the order in which they were spoken. */
  onLines: (lines: readonly Line[]) => void;
  /** Something was refused, or an utterance could not be transcribed. */
  onError: (message: string, of: 'session' | 'utterance') => void;
  /** Everything that was committed until `end` is transcribed, or never will be. */
  onDone: () => void;
  onClose: (reason: string | null) => void;
};

export type Transcriber = {
  /** 16-bit mono PCM at 24 kHz. */
  append: (samples: Int16Array) => void;
  /**
   * Marks the end of an utterance: of a file, or when the microphone stops in mid-sentence. Resolves when it is taken, which may be before it
   * is transcribed.
   */
  commit: () => Promise<void>;
  /** Nothing more will be appended. */
  end: () => void;
};

export const sampleRateHz = 24_000;

const socketPath = '/api/v1/realtime?intent=transcription';

/** The longest utterance that the gateway accepts. */
export const utteranceSecondsMax = 120;
/** The shortest one. */
export const utteranceSecondsMin = 0.1;

type ServerEvent = {
  type: string;
  item_id?: string;
  delta?: string;
  transcript?: string;
  error?: { message?: string };
};

/**
 * Opens the realtime transcription socket (openai-contract.md section 5). Browsers cannot set headers on a socket, so the token travels in
 * a subprotocol. With `detectSpeech` the server splits the audio into utterances; otherwise `commit` does. Aborting the signal closes the
 * socket, and no event follows.
 */
export async function openTranscriber(
  api: Api,
  model: string,
  detectSpeech: boolean,
  signal: AbortSignal,
  events: TranscriptEvents,
): Promise<Transcriber> {
  const token = await api.token();
  signal.throwIfAborted();
  const address = window.location.origin.replace(/^http/, 'ws') + socketPath;
  const socket = new WebSocket(address, ['realtime', `openai-insecure-api-key.${token}`]);
  signal.addEventListener('abort', () => socket.close(1000));
  /**
   * By id, in the order in which they were committed. Some are transcribed before their commit is reported; others are transcribed side by
   * side, and the last may be done first.
   */
  const utterances = new Map<string, { text: string; isCommitted: boolean; isOver: boolean }>();
  const utterance = (id: string) => {
    const known = utterances.get(id) ?? { text: '', isCommitted: false, isOver: false };
    utterances.set(id, known);
    return known;
  };
  const tell = () =>
    events.onLines(
      [...utterances]
        .filter(([, { text }]) => text !== '')
        .map(([id, { text, isOver }]) => ({ id, text, final: isOver })),
    );
  /** Of each commit that was sent and is neither carried out nor refused, who waits for it. */
  const unanswered: (() => void)[] = [];
  let isEnding = false;
  const commitDone = (id: string) => {
    const done = utterance(id);
    if (!done.isCommitted) unanswered.shift()?.();
    done.isCommitted = true;
    return done;
  };
  const endIfDone = () => {
    const isWaiting = [...utterances.values()].some(({ isCommitted, isOver }) => isCommitted && !isOver);
    if (isEnding && unanswered.length === 0 && !isWaiting) events.onDone();
  };
  const queue: string[] = [];
  const send = (event: Record<string, unknown>) => {
    const text = JSON.stringify(event);
    if (socket.readyState === WebSocket.OPEN) socket.send(text);
    else if (socket.readyState === WebSocket.CONNECTING) queue.push(text);
  };
  let hasOpened = false;
  socket.addEventListener('open', () => {
    hasOpened = true;
    for (const text of queue.splice(0)) socket.send(text);
  });
  socket.addEventListener('message', (message) => {
    if (signal.aborted) return;
    const event = JSON.parse(String(message.data)) as ServerEvent;
    take(event);
    if (!signal.aborted) endIfDone();
  });
  const take = ({ type, item_id: id = '', delta = '', transcript = '', error }: ServerEvent) => {
    switch (type) {
      case 'input_audio_buffer.committed':
        commitDone(id);
        return;
      case 'conversation.item.input_audio_transcription.delta':
        utterance(id).text += delta;
        return tell();
      case 'conversation.item.input_audio_transcription.completed':
        Object.assign(commitDone(id), { text: transcript, isOver: true });
        return tell();
      case 'conversation.item.input_audio_transcription.failed':
        commitDone(id).isOver = true;
        tell();
        return events.onError(error?.message ?? 'The transcription failed.', 'utterance');
      case 'error':
        // Where speech is detected, nothing was said since the last utterance.
        if (detectSpeech && unanswered.length > 0) unanswered.shift()?.();
        else events.onError(error?.message ?? 'The transcription failed.', 'session');
    }
  };
  socket.addEventListener('close', async ({ code, reason }) => {
    if (signal.aborted) return;
    const why = hasOpened ? reasonOfClose(code, reason) : await reasonOfRefusal(api, model);
    if (!signal.aborted) events.onClose(why);
  });
  send({
    type: 'session.update',
    session: {
      type: 'transcription',
      audio: {
        input: {
          format: { type: 'audio/pcm', rate: sampleRateHz },
          transcription: { model },
          turn_detection: detectSpeech ? { type: 'server_vad' } : null,
        },
      },
    },
  });
  return {
    append: (samples) => send({ type: 'input_audio_buffer.append', audio: base64Of(samples) }),
    commit: () => {
      send({ type: 'input_audio_buffer.commit' });
      return new Promise((resolve) => unanswered.push(resolve));
    },
    end: () => {
      isEnding = true;
      endIfDone();
    },
  };
}

/** Why an open socket closed; null if it was meant to. */
function reasonOfClose(code: number, reason: string): string | null {
  if (code === 1000 || code === 1005) return null;
  return reason || (code === 1006 ? 'The connection broke.' : `The socket closed with code ${code}.`);
}

/** Why a socket was not opened, which browsers do not tell: a client secret is refused where a session would be. */
async function reasonOfRefusal(api: Api, model: string): Promise<string> {
  const session = { type: 'transcription', audio: { input: { transcription: { model } } } };
  const refusal: unknown = await api
    .request('/api/v1/realtime/client_secrets', { method: 'POST', body: { session } })
    .catch((error: unknown) => error);
  return refusal instanceof ApiError ? refusal.message : 'The socket could not be opened.';
}

function base64Of(samples: Int16Array): string {
  const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
  let text = '';
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** The sound of a file at 24 kHz. */
type Sound = {
  /** In samples. */
  length: number;
  /** A part of it as 16-bit mono PCM, made only now: all of an hour at once would hold up the page for seconds. */
  part: (from: number, to: number) => Int16Array;
};

export async function decodeFile(file: File): Promise<Sound> {
  // An offline context resamples to its own rate as it decodes.
  const context = new OfflineAudioContext(1, 1, sampleRateHz);
  const audio = await context.decodeAudioData(await file.arrayBuffer());
  const channels = Array.from({ length: audio.numberOfChannels }, (_, index) => audio.getChannelData(index));
  return {
    length: audio.length,
    part: (from, to) => {
      const mono = new Float32Array(to - from);
      for (const samples of channels)
        for (let index = 0; index < mono.length; index++) mono[index]! += samples[from + index]! / channels.length;
      return toPcm16(mono);
    },
  };
}

/** A loop, since `Int16Array.from` takes twenty times as long. */
function toPcm16(samples: Float32Array): Int16Array {
  const pcm = new Int16Array(samples.length);
  for (let index = 0; index < pcm.length; index++)
    pcm[index] = Math.round(Math.max(-1, Math.min(1, samples[index]!)) * 32_767);
  return pcm;
}

/** Listens to the microphone until `stop` or the signal; delivers 100 ms at a time. */
export async function listen(
  onSamples: (samples: Int16Array) => void,
  signal: AbortSignal,
): Promise<{ stop: () => void }> {
  if (!window.isSecureContext) throw new Error('Browsers allow it only on pages served over HTTPS.');
  const stream = await navigator.mediaDevices.getUserMedia({
    audio: { channelCount: 1, echoCancellation: true, noiseSuppression: true },
  });
  let context: AudioContext | undefined;
  const stop = () => {
    for (const track of stream.getTracks()) track.stop();
    if (context !== undefined && context.state !== 'closed') void context.close();
  };
  signal.addEventListener('abort', stop);
  try {
    // The browser may ask for permission indefinitely, and by the time of the answer the microphone may no longer be wanted.
    signal.throwIfAborted();
    context = new AudioContext({ sampleRate: sampleRateHz });
    await context.audioWorklet.addModule('/microphone-worklet.js');
    signal.throwIfAborted();
    const node = new AudioWorkletNode(context, 'microphone', { numberOfOutputs: 0 });
    node.port.onmessage = (message: MessageEvent<Float32Array>) => onSamples(toPcm16(message.data));
    context.createMediaStreamSource(stream).connect(node);
    return { stop };
  } catch (error) {
    stop();
    throw error;
  }
}
