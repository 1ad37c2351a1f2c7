import type { Api } from '../../api/client.ts';

/** What arrives while audio is sent. */
type TranscriptEvents = {
  onText: (itemId: string, text: string, final: boolean) => void;
  onError: (message: string) => void;
  onClose: (reason: string | null) => void;
};

export type Transcriber = {
  /** 16-bit mono PCM at 24 kHz. */
  append: (samples: Int16Array) => void;
  /** Marks the end of an utterance: of a file, or when the microphone stops in mid-sentence. */
  commit: () => void;
};

export const sampleRateHz = 24_000;

/** The longest utterance that the gateway accepts. */
export const utteranceSecondsMax = 120;

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
  const address = `${window.location.origin.replace(/^http/, 'ws')}/api/v1/realtime?intent=transcription`;
  const socket = new WebSocket(address, ['realtime', `openai-insecure-api-key.${token}`]);
  signal.addEventListener('abort', () => socket.close(1000));
  const texts = new Map<string, string>();
  const queue: string[] = [];
  const send = (event: Record<string, unknown>) => {
    const text = JSON.stringify(event);
    if (socket.readyState === WebSocket.OPEN) socket.send(text);
    else if (socket.readyState === WebSocket.CONNECTING) queue.push(text);
  };
  socket.addEventListener('open', () => {
    for (const text of queue.splice(0)) socket.send(text);
  });
  socket.addEventListener('message', (message) => {
    if (signal.aborted) return;
    const event = JSON.parse(String(message.data)) as ServerEvent;
    const id = event.item_id ?? '';
    if (event.type === 'conversation.item.input_audio_transcription.delta') {
      texts.set(id, (texts.get(id) ?? '') + (event.delta ?? ''));
      events.onText(id, texts.get(id) ?? '', false);
    } else if (event.type === 'conversation.item.input_audio_transcription.completed') {
      events.onText(id, event.transcript ?? '', true);
    } else if (event.type === 'error' || event.type.endsWith('.failed')) {
      events.onError(event.error?.message ?? 'The transcription failed.');
    }
  });
  socket.addEventListener('close', (event) => {
    if (signal.aborted) return;
    const clean = event.code === 1000 || event.code === 1005;
    events.onClose(
      clean
        ? null
        : event.reason ||
            (event.code === 1006
              ? 'The socket could not be opened, or its connection broke.'
              : `The socket closed with code ${event.code}.`),
    );
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
    commit: () => send({ type: 'input_audio_buffer.commit' }),
  };
}

function base64Of(samples: Int16Array): string {
  const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
  let text = '';
  for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
  return btoa(text);
}

/** Decodes an audio file to 16-bit mono PCM at 24 kHz. */
export async function decodeFile(file: File): Promise<Int16Array> {
  // An offline context resamples to its own rate as it decodes.
  const context = new OfflineAudioContext(1, 1, sampleRateHz);
  const audio = await context.decodeAudioData(await file.arrayBuffer());
  const mono = new Float32Array(audio.length);
  for (let channel = 0; channel < audio.numberOfChannels; channel++) {
    const samples = audio.getChannelData(channel);
    for (let index = 0; index < mono.length; index++) mono[index]! += samples[index]! / audio.numberOfChannels;
  }
  return toPcm16(mono);
}

function toPcm16(samples: Float32Array): Int16Array {
  return Int16Array.from(samples, (sample) => Math.round(Math.max(-1, Math.min(1, sample)) * 32_767));
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
