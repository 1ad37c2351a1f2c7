import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { createAudioLengthReader } from './audio-length-reader.ts';

const reader = createAudioLengthReader();
const folder = mkdtempSync(join(tmpdir(), 'audio-length-'));
afterAll(async () => {
  await reader.close();
  rmSync(folder, { recursive: true });
});

const sound = (name: string): Buffer => readFileSync(new URL(`./fixtures/sounds/${name}`, import.meta.url));

/** Written by ffmpeg; the `recorded` ones by Chromium's MediaRecorder, in slices of 100 ms. */
const lengthsMs = {
  'opus.ogg': 4_000,
  'vorbis.ogg': 4_000,
  'with-duration.webm': 4_000,
  'live.webm': 4_000,
  'recorded.webm': 2_940,
  'moov-last.m4a': 4_000,
  'moov-first.m4a': 4_000,
  'fragmented.mp4': 4_000,
  // Its mvhd says 4 ms.
  'recorded.mp4': 2_920,
  // It has ten seconds of pictures.
  'video.mp4': 4_000,
  'vbr-xing.mp3': 4_000,
  'vbr.mp3': 4_000,
  'streamed.flac': 4_000,
  'adts.aac': 4_000,
};
const names = Object.keys(lengthsMs);
/** Encoders pad their first and last frames with silence: at 8 kHz a frame of AAC is 128 ms. */
const paddingMs = 250;

test.each(Object.entries(lengthsMs))('%s is as long as its sound', async (name, lengthMs) => {
  const readMs = (await reader.read(sound(name)))!;
  expect(Math.abs(readMs - lengthMs)).toBeLessThanOrEqual(paddingMs);
});

test('a file is read from the spooled form, or from the middle of a body, which stays intact', async () => {
  const recorded = sound('recorded.webm');
  const form = Buffer.concat([Buffer.alloc(1_000, '-'), recorded, Buffer.alloc(1_000, '-')]);
  const path = join(folder, 'form');
  writeFileSync(path, form);
  const [start, end] = [1_000, 1_000 + recorded.length];
  expect(await reader.read({ file: path, start, end })).toBe(2_940);
  expect(await reader.read(form.subarray(start, end))).toBe(2_940);
  expect(form.subarray(start, end).equals(recorded)).toBe(true);
});

test('a missing form, a file without sound, and a playlist have no length', async () => {
  expect(await reader.read({ file: join(folder, 'gone'), start: 0, end: 10 })).toBeNull();
  expect(await reader.read(Buffer.alloc(0))).toBeNull();
  expect(await reader.read(Buffer.alloc(100_000, 7))).toBeNull();
  const path = join(folder, 'sound.aac');
  writeFileSync(path, sound('adts.aac'));
  expect(existsSync(path)).toBe(true);
  const playlist = `#EXTM3U\n#EXT-X-TARGETDURATION:4\n#EXTINF:4,\nfile://${path}\n#EXT-X-ENDLIST\n`;
  expect(await reader.read(Buffer.from(playlist))).toBeNull();
});

/** One changed byte in its first cluster keeps the library in a loop that never yields to the event loop. */
function endlessWebm(): Buffer {
  const bytes = sound('with-duration.webm');
  bytes[590] = 0;
  return bytes;
}

test('a file on which the library never finishes is given up, and the next ones are read', async () => {
  const startedMs = performance.now();
  const lengths = await Promise.all([endlessWebm(), sound('opus.ogg'), sound('live.webm')].map(reader.read));
  expect(lengths).toEqual([null, 4_000, 4_001]);
  expect(performance.now() - startedMs).toBeLessThan(8_000);
});

test('nobody waits long for a place in the queue, nor for a reader that closes', async () => {
  const crowded = createAudioLengthReader();
  const startedMs = performance.now();
  const early = [1, 2, 3, 4, 5, 6].map(() => crowded.read(endlessWebm()));
  const [last] = await Promise.all([crowded.read(sound('opus.ogg')), ...early]);
  expect(last).toBeNull();
  expect(performance.now() - startedMs).toBeLessThan(12_000);
  const waiting = [endlessWebm(), sound('opus.ogg')].map(crowded.read);
  const closedMs = performance.now();
  await crowded.close();
  expect(await Promise.all(waiting)).toEqual([null, null]);
  expect(performance.now() - closedMs).toBeLessThan(2_000);
}, 30_000);

test('damaged and random bytes give a length or none, in time, and end nothing', async () => {
  const at = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  const wounds = fc.array(fc.tuple(at, fc.uint8Array({ minLength: 1, maxLength: 8 })), { maxLength: 4 });
  const mutilated = fc.tuple(fc.constantFrom(...names), at, wounds).map(([name, cut, writes]) => {
    const whole = sound(name);
    const bytes = whole.subarray(0, cut < 0.5 ? whole.length : Math.ceil(whole.length * cut));
    for (const [place, written] of writes) bytes.set(written.slice(0, bytes.length), wherever(place, bytes, written));
    return bytes;
  });
  await fc.assert(
    fc.asyncProperty(
      fc.oneof({ weight: 4, arbitrary: mutilated }, fc.uint8Array({ maxLength: 4_000 })),
      async (bytes) => {
        const startedMs = performance.now();
        const lengthMs = await reader.read(bytes);
        expect(lengthMs === null || (Number.isSafeInteger(lengthMs) && lengthMs > 0)).toBe(true);
        expect(performance.now() - startedMs).toBeLessThan(6_000);
      },
    ),
    { numRuns: 300, interruptAfterTimeLimit: 20_000 },
  );
  expect(await reader.read(sound('opus.ogg'))).toBe(4_000);
}, 60_000);

/** Most can be broken in heads, so damage is more frequent near the beginning. */
const wherever = (place: number, bytes: Uint8Array, written: Uint8Array): number =>
  Math.floor(place ** 2 * Math.max(0, bytes.length - written.length));
