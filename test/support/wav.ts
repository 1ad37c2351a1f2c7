import { wavHeader } from '../../services/models/audio/wav-header.ts';

/** Some seconds of sound as a WAV file: 16-bit mono at 16 kHz. */
export function wavOf(seconds: number): Buffer<ArrayBuffer> {
  const bytes = seconds * 32_000;
  return Buffer.concat([wavHeader(bytes, 16_000), Buffer.alloc(bytes, 1)]);
}
