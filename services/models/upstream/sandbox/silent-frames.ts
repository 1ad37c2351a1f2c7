/** A compressed format that the sandbox can write without a codec: one frame of silence, again and again. */
type SilentFormat = { frame: Uint8Array; frameMs: number };

/**
 * MPEG-2 Layer III, 64 kbit/s, 24 kHz, mono (ISO 13818-3): four bytes of header, side information of zeros (no coded
 * data, hence silence), and padding; 192 bytes for 576 samples.
 */
export const silentMp3: SilentFormat = { frame: withStart(192, [0xff, 0xf3, 0x84, 0xc0]), frameMs: 24 };

/**
 * AAC-LC in ADTS, 24 kHz, mono (ISO 13818-7): seven bytes of header and a single channel element of no bands, ended by
 * ID_END (the last three bits); 11 bytes for 1,024 samples.
 */
export const silentAac: SilentFormat = {
  frame: withStart(11, [0xff, 0xf1, 0x58, 0x40, 0x01, 0x7f, 0xfc, 0x00, 0x00, 0x00, 0x07]),
  frameMs: (1024 / 24_000) * 1000,
};

function withStart(length: number, start: readonly number[]): Uint8Array {
  const frame = new Uint8Array(length);
  frame.set(start);
  return frame;
}

/** Silence of at least the given length, in pieces of about a quarter of a second. */
export function* silentFrames({ frame, frameMs }: SilentFormat, durationMs: number): Generator<Uint8Array> {
  const framesPerPiece = Math.ceil(250 / frameMs);
  for (let left = Math.ceil(durationMs / frameMs); left > 0; left -= framesPerPiece) {
    const frames = Math.min(left, framesPerPiece);
    const piece = new Uint8Array(frames * frame.length);
    for (let i = 0; i < frames; i++) piece.set(frame, i * frame.length);
    yield piece;
  }
}
