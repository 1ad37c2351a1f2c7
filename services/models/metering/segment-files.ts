import { readdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { frameHeaderBytes, type ParsedFrames, parseFrames, payloadBytesMax } from './frame.ts';

/** Each read takes this much, so that it always holds a whole frame. */
const readBytes = frameHeaderBytes + payloadBytesMax;

const segmentPattern = /^segment-(\d{1,15})$/;

export const segmentPath = (folder: string, segment: number): string => join(folder, `segment-${segment}`);

/** The numbers of a folder's segments, ascending. */
export const listSegments = (folder: string): number[] =>
  readdirSync(folder)
    .flatMap((name) => segmentPattern.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);

/** Frames from `offset` on; `tail` is `more` when another read will find further ones. Offsets are positions in the file. */
export type SegmentPart = Omit<ParsedFrames, 'tail'> & { tail: ParsedFrames['tail'] | 'more' };

/** Reads the next part of a segment. Fails only if the file cannot be read; damage is part of the result. */
export async function readSegment(path: string, offset: number): Promise<SegmentPart> {
  const file = await open(path, 'r');
  try {
    const buffer = Buffer.allocUnsafe(readBytes);
    let length = 0;
    for (;;) {
      const { bytesRead } = await file.read(buffer, length, readBytes - length, offset + length);
      length += bytesRead;
      if (bytesRead === 0 || length === readBytes) break;
    }
    const { payloads, ends, end, tail } = parseFrames(buffer.subarray(0, length));
    return {
      payloads,
      ends: ends.map((frameEnd) => offset + frameEnd),
      end: offset + end,
      tail: length === readBytes && tail !== 'damaged' ? 'more' : tail,
    };
  } finally {
    await file.close();
  }
}
