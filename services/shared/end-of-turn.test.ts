import { expect, test } from 'vitest';
import { EndOfTurn } from './end-of-turn.ts';

const turnEnds = () => new Promise(setImmediate);

test('what is requested in one turn of the event loop is done once, at its end, and again in the next turn', async () => {
  let done = 0;
  const work = new EndOfTurn(60_000, () => done++);
  for (const total of [1, 2]) {
    work.ask();
    work.ask();
    expect(done).toBe(total - 1);
    await turnEnds();
    expect(done).toBe(total);
  }
  await turnEnds();
  expect(done).toBe(2);
});

test('in a long turn of the event loop nothing waits for its end longer than it may', async () => {
  const items: string[] = [];
  const left: string[] = [];
  const waitMsMax = 2;
  const work = new EndOfTurn(waitMsMax, () => {
    left.push(...items.splice(0));
  });
  const add = (item: string) => {
    work.ask();
    items.push(item);
  };
  const passTime = () => {
    for (const startMs = performance.now(); performance.now() - startMs <= waitMsMax; );
  };
  add('first');
  passTime();
  add('second');
  expect(left).toEqual(['first']);
  passTime();
  add('third');
  expect(left).toEqual(['first', 'second']);
  await turnEnds();
  expect(left).toEqual(['first', 'second', 'third']);
});
