import { readFileSync } from 'node:fs';
import {
  ADTS,
  BufferSource,
  FLAC,
  Input,
  Logging,
  LogLevel,
  MATROSKA,
  MP3,
  MP4,
  OGG,
  QTFF,
  WAVE,
  WEBM,
} from 'mediabunny';
import type { BodyPiece } from '../upstream/upstream.ts';

/** Listed one by one: the library also reads playlists, which refer to other files. */
const formats = [MP4, QTFF, WEBM, MATROSKA, OGG, MP3, WAVE, FLAC, ADTS];

// Oddities of a stranger's file are not worth a log line.
Logging.level = LogLevel.Silent;

/** How long the sound of a file is, in milliseconds; null when it has none. Throws, or never ends, for a broken one. */
export default async function audioLengthMs(audio: BodyPiece): Promise<number | null> {
  const bytes = 'file' in audio ? readFileSync(audio.file).subarray(audio.start, audio.end) : audio;
  using input = new Input({ formats, source: new BufferSource(bytes) });
  const track = await input.getPrimaryAudioTrack();
  if (track === null) return null;
  // Pieces of a live stream start at its current time; decoders skip what is before 0.
  const startSeconds = Math.max(0, await track.getFirstTimestamp());
  const lengthMs = Math.round(((await track.computeDuration()) - startSeconds) * 1000);
  return lengthMs > 0 && Number.isFinite(lengthMs) ? lengthMs : null;
}
