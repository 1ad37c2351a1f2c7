import { createReadStream } from 'node:fs';
import type { InvokeRequest } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { type FormPart, FormScanner, formField } from '#shared/multipart.ts';
import type { AudioFile } from '../audio/audio-length.ts';
import type { BodyPiece } from '../upstream/upstream.ts';
import { furtherModels, furtherModelsRefused } from './further-models.ts';
import type { BodyTarget } from './prepared-call.ts';

/** An audio upload, read as far as the gateway needs it. */
export type AudioForm = {
  model: string;
  /** The type that the form has for a deployment. */
  contentType: string;
  streamed: boolean;
  /** Whether a background job is asked for. */
  background: boolean;
  responseFormat: string;
  file: AudioFile;
  /** The size of everything sent beside the file, such as a prompt, in bytes. */
  besideBytes: number;
  /** The sizes of the fields among these with recordings of known speakers, as data URLs, in bytes. */
  recordingsBytes: readonly number[];
  /** The body with the deployment's name of the model; all other parts are the client's own bytes. */
  bodyFor(deployment: Pick<BodyTarget, 'upstreamModel'>): readonly BodyPiece[];
};

const readBytes = 256 * 1024;
/** What Python servers accept as true. */
const saysYes = /^(true|t|1|yes|y|on)$/i;
const knownSpeakers = /^known_speaker_references(\[.*)?$/s;
const formats = ['flac', 'mp3', 'mp4', 'mpeg', 'mpga', 'm4a', 'ogg', 'oga', 'wav', 'webm'];

/** Reads a form from the request's body, or from the file that the edge spooled it to. */
export async function readAudioForm(request: InvokeRequest): Promise<AudioForm> {
  const scanner = new FormScanner(request.contentType);
  const { bodyFile, body } = request;
  let bodyBytes = body.byteLength;
  if (bodyFile === '') scanner.push(body);
  else {
    for await (const chunk of createReadStream(bodyFile, { highWaterMark: readBytes })) {
      scanner.push(chunk);
      bodyBytes += chunk.length;
    }
  }
  const parts = scanner.end();

  const model = formField(parts, 'model');
  if (model === undefined || model === '') {
    throw invalidRequest('model', 'You must provide a `model`.', 'missing_required_field');
  }
  for (const name of furtherModels) {
    // LiteLLM makes a list of fields whose names end in brackets.
    if (parts.some((part) => part.name.replace(/\[.*/s, '') === name)) throw furtherModelsRefused(name);
  }
  const file = audioFile(parts);
  const modelPart = parts.find((part) => part.name === 'model')!;
  const range = (start: number, end: number): BodyPiece =>
    bodyFile === '' ? body.subarray(start, end) : { file: bodyFile, start, end };
  return {
    model,
    contentType: scanner.contentType,
    streamed: saysYes.test(formField(parts, 'stream') ?? ''),
    background: asksForJob(parts),
    responseFormat: formField(parts, 'response_format') ?? 'json',
    file: {
      head: file.head,
      bytes: file.contentEnd - file.contentStart,
      content: range(file.contentStart, file.contentEnd),
    },
    besideBytes: bodyBytes - (file.contentEnd - file.contentStart),
    recordingsBytes: parts
      .filter((part) => knownSpeakers.test(part.name))
      .map((part) => part.contentEnd - part.contentStart),
    bodyFor({ upstreamModel }) {
      const edits = [{ start: modelPart.contentStart, end: modelPart.contentEnd, text: upstreamModel }];
      const background = parts.find((part) => part.name === 'background');
      if (background !== undefined) edits.push({ start: background.start, end: background.contentEnd, text: '' });
      const pieces: BodyPiece[] = [];
      // The first part's line break, which FormScanner adds, lies before 0.
      let position = 0;
      for (const { start, end, text } of edits.sort((one, other) => one.start - other.start)) {
        if (start > position) pieces.push(range(position, start));
        if (text !== '') pieces.push(Buffer.from(text));
        position = Math.max(position, end);
      }
      pieces.push(range(position, bodyBytes));
      return pieces;
    },
  };
}

/** Audio operations have no field `background` of their own, so it is the gateway's, true or false; Python clients write `True`. */
function asksForJob(parts: readonly FormPart[]): boolean {
  const background = (formField(parts, 'background') ?? 'false').toLowerCase();
  if (background !== 'true' && background !== 'false') {
    throw invalidRequest('background', '`background` must be true or false.', 'invalid_value');
  }
  return background === 'true';
}

function audioFile(parts: readonly FormPart[]): FormPart {
  const file = parts.find((part) => part.name === 'file');
  if (file === undefined || file.fileName === null) {
    throw invalidRequest('file', 'The audio file is missing. Send it in the field `file`.', 'missing_required_field');
  }
  const extension = /\.([a-z0-9]{1,5})$/i.exec(file.fileName)?.[1]?.toLowerCase() ?? '';
  const isMedia = /^(audio|video)\//i.test(file.contentType ?? '');
  if (!formats.includes(extension) && !isMedia) {
    throw invalidRequest('file', `Invalid file format. Supported formats: ${formats.join(', ')}.`);
  }
  if (file.contentEnd === file.contentStart) throw invalidRequest('file', 'The audio file is empty.');
  return file;
}
