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

/** Named one by one: among all that the library reads are playlists, which name other files. */
const formats = [MP4, QTFF, WEBM, MATROSKA, OGG, MP3, WAVE, FLAC, ADTS];

// What is strange about a stranger's file is nothing for the log.
Logging.level = LogLevel.Silent;

/** How long the sound of a file is, in milliseconds; null when it has none. Throws, or never ends, for a broken one. */
export default async function audioLengthMs(audio: BodyPiece): Promise<number | null> {
  const bytes = 'file' in audio ? readFileSync(audio.file).subarray(audio.start, audio.end) : audio;
  using input = new Input({ formats, source: new BufferSource(bytes) });
  const track = await input.getPrimaryAudioTrack();
  if (track === null) return null;
  // Pieces of a live stream begin at its time; before 0 is what decoders leave out.
  const startSeconds = Math.max(0, await track.getFirstTimestamp());
  const lengthMs = Math.round(((await track.computeDuration()) - startSeconds) * 1000);
  return lengthMs > 0 && Number.isFinite(lengthMs) ? lengthMs : null;
}
