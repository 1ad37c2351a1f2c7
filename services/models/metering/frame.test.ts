import { expect, test } from 'vitest';
import { FrameBuffer, parseFrames, payloadBytesMax } from './frame.ts';

function framesOf(...payloads: string[]): Buffer {
  const frames = new FrameBuffer();
  for (const payload of payloads) frames.append(payload);
  const taken: Buffer[] = [];
  frames.drain((bytes, offset, length) => {
    taken.push(Buffer.from(bytes.subarray(offset, offset + length)));
    return length;
  });
  return Buffer.concat(taken);
}

const payloads = ['{"t":"b"}', 'ünïcödé 🚀', 'x'.repeat(300)];

test('frames come back as they were written', () => {
  const parsed = parseFrames(framesOf(...payloads));
  expect(parsed.payloads).toEqual(payloads);
  expect(parsed.tail).toBe('end');
});

test('a file cut at any offset gives back every whole frame before the cut', () => {
  const bytes = framesOf(...payloads);
  const { ends } = parseFrames(bytes);
  for (let cut = 0; cut <= bytes.length; cut += 1) {
    const whole = ends.filter((end) => end <= cut).length;
    const parsed = parseFrames(bytes.subarray(0, cut));
    expect(parsed.payloads).toEqual(payloads.slice(0, whole));
    expect(parsed.tail).toBe(cut === 0 || ends.includes(cut) ? 'end' : 'torn');
  }
});

test('a flipped bit anywhere costs its frame and those after it, never those before', () => {
  const bytes = framesOf(...payloads);
  const { ends } = parseFrames(bytes);
  for (let bit = 0; bit < bytes.length * 8; bit += 1) {
    const flipped = Buffer.from(bytes);
    flipped[bit >> 3]! ^= 1 << (bit & 7);
    const intact = ends.filter((end) => end <= bit >> 3).length;
    const parsed = parseFrames(flipped);
    expect(parsed.payloads).toEqual(payloads.slice(0, intact));
    expect(parsed.tail).not.toBe('end');
  }
});

test('zeros left by a power loss are a torn tail, not frames', () => {
  const bytes = Buffer.concat([framesOf('a'), Buffer.alloc(4096)]);
  expect(parseFrames(bytes)).toMatchObject({ payloads: ['a'], tail: 'torn' });
});

test('garbage is never a frame and never throws', () => {
  let seed = 1;
  for (let round = 0; round < 2000; round += 1) {
    const garbage = Buffer.alloc(round % 200);
    for (let index = 0; index < garbage.length; index += 1) {
      seed = (seed * 1_103_515_245 + 12_345) & 0x7fffffff;
      garbage[index] = seed >> 16;
    }
    expect(parseFrames(garbage).payloads).toEqual([]);
  }
});

test('a write in small pieces continues where it stopped', () => {
  const frames = new FrameBuffer();
  for (const payload of payloads) frames.append(payload);
  const taken: Buffer[] = [];
  frames.drain((bytes, offset, length) => {
    const count = Math.min(7, length);
    taken.push(Buffer.from(bytes.subarray(offset, offset + count)));
    return count;
  });
  expect(Buffer.concat(taken)).toEqual(framesOf(...payloads));
});

test('a record that no reader would accept is refused when written', () => {
  const frames = new FrameBuffer();
  expect(() => frames.append('')).toThrow(RangeError);
  expect(() => frames.append('x'.repeat(payloadBytesMax + 1))).toThrow(RangeError);
  expect(frames.length).toBe(0);
});
