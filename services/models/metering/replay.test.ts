import { expect, test } from 'vitest';
import { testCodec } from './fixtures/test-journal.ts';
import { beginRecord, endRecord, progressRecord, type RecordText, recordTail } from './record.ts';
import { createReplay } from './replay.ts';

const recordText = ({ head, json }: RecordText) => head + json + recordTail;
const begin = (id: string) => recordText(beginRecord(id, JSON.stringify({ id, tokens: 0 })));
const progress = (id: string, tokens: number) => recordText(progressRecord(id, JSON.stringify({ tokens })));
const end = (id: string, tokens: number) => recordText(endRecord(id, JSON.stringify({ id, tokens })));

test('an end is its event, and nothing of it is left', () => {
  const replay = createReplay(testCodec);
  expect(replay.accept(begin('a'))).toBeNull();
  expect(replay.accept(progress('a', 3))).toBeNull();
  expect(replay.accept(end('a', 7))).toEqual({ id: 'a', tokens: 7 });
  expect(replay.interrupted()).toEqual([]);
});

test('a begin without an end is an interrupted event with what was last counted', () => {
  const replay = createReplay(testCodec);
  for (const text of [begin('a'), begin('b'), progress('a', 3), progress('a', 5)]) replay.accept(text);
  expect(replay.interrupted()).toEqual([
    { id: 'a', tokens: 5, interrupted: true },
    { id: 'b', tokens: 0, interrupted: true },
  ]);
});

test('an end whose begin was deleted with an older segment still counts', () => {
  expect(createReplay(testCodec).accept(end('a', 7))).toEqual({ id: 'a', tokens: 7 });
});

test('a begin that was carried over keeps the progress that follows it', () => {
  const replay = createReplay(testCodec);
  for (const text of [begin('a'), progress('a', 2), begin('a'), progress('a', 4)]) replay.accept(text);
  expect(replay.interrupted()).toEqual([{ id: 'a', tokens: 4, interrupted: true }]);
});

test.each(['', 'null', '[]', '{', '{"t":"x","id":"a"}', '{"t":"e"}', '{"t":"e","id":"a","event":{}}'])(
  'the unreadable record %j throws and harms no other',
  (text) => {
    const replay = createReplay(testCodec);
    replay.accept(begin('a'));
    expect(() => replay.accept(text)).toThrow();
    expect(replay.accept(end('b', 1))).toEqual({ id: 'b', tokens: 1 });
  },
);
