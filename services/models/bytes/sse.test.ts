import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { cutAt } from './fixtures/cut.ts';
import { trials, trialTimeoutMs } from './fixtures/json-text.ts';
import { frameBytesMax, SseSplitter } from './sse.ts';

type Event = { event: string; data: string };

function split(chunks: readonly Buffer[], { end }: { end: boolean }): { events: Event[]; raw: string; whole: boolean } {
  const events: Event[] = [];
  let raw = '';
  const splitter = new SseSplitter((frame) => {
    raw += frame.bytes.toString('latin1', frame.start, frame.end);
    if (frame.dataStart === -1) return;
    events.push({ event: frame.event, data: frame.data.toString('utf8', frame.dataStart, frame.dataEnd) });
  });
  let whole = true;
  for (const chunk of chunks) whole = splitter.push(chunk);
  if (end) splitter.end();
  return { events, raw, whole };
}

function reference(stream: string): Event[] {
  const events: Event[] = [];
  const parser = createParser({ onEvent: ({ event, data }) => events.push({ event: event ?? '', data }) });
  parser.feed(stream);
  return events;
}

const line = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.constantFrom('data: {"a":1}', 'data: x', 'data:y', 'data:  z ', 'data', 'data:', 'data: é🚀'),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom('event: ping', 'event:error', 'event', 'id: 7', 'retry: 10', 'error: {"b":2}'),
  },
  { weight: 2, arbitrary: fc.constantFrom(':', ': comment', ' data: no', 'datax: no', 'Data: no', 'dat', 'data : no') },
  { weight: 1, arbitrary: fc.stringMatching(/^[a-z: ]{0,12}$/) },
);
const lineEnd = fc.constantFrom('\n', '\n', '\n', '\r\n', '\r');
const stream = fc
  .tuple(
    fc.constantFrom('', '', '', '\ufeff'),
    fc.array(fc.tuple(line, lineEnd, fc.constantFrom('', '', 'end'), lineEnd), { maxLength: 12 }),
    fc.constantFrom('', '', 'data: cut of', 'data: cut off\n'),
  )
  .map(([mark, lines, rest]) => {
    const text = lines.map(([text, ending, blank, blankEnding]) => text + ending + (blank === '' ? '' : blankEnding));
    return mark + text.join('') + rest;
  });

test(
  'any stream, cut anywhere, gives the events of eventsource-parser, and its frames are all its bytes',
  () => {
    fc.assert(
      fc.property(stream, fc.array(fc.nat(400), { maxLength: 8 }), (text, cuts) => {
        const bytes = Buffer.from(text);
        const chunks = cutAt(bytes, cuts);
        const { events, raw } = split(chunks, { end: false });
        // A final carriage return may be half of a line end, so it waits, and it makes no difference where chunks are cut.
        expect(events).toEqual(reference(text.replace(/\r$/, '')));
        const unmarked = bytes.toString('latin1').replace(/^\u00ef\u00bb\u00bf/, '');
        expect(unmarked.startsWith(raw)).toBe(true);
        // The end completes what is left.
        const ended = split(chunks, { end: true });
        expect(ended.raw.startsWith(unmarked)).toBe(true);
        expect(ended.raw.slice(unmarked.length)).toMatch(/^\n{0,2}$/);
      }),
      trials,
    );
  },
  trialTimeoutMs,
);

test('an event without its blank line, or without the end of its line, is emitted when the stream ends', () => {
  for (const text of ['data: [DONE]', 'data: [DONE]\n', 'data: [DONE]\r', 'data: [DONE]\r\n']) {
    expect(split([Buffer.from(text)], { end: false }).events).toEqual([]);
    expect(split([Buffer.from(text)], { end: true }).events).toEqual([{ event: '', data: '[DONE]' }]);
  }
});

test('what looks like half a byte order mark is content', () => {
  expect(split([Buffer.from([0xef]), Buffer.from('data: x\n\ndata: y\n\n')], { end: true }).events).toEqual([
    { event: '', data: 'y' },
  ]);
});

test('the value of an error line is reported', () => {
  const errors: (string | null)[] = [];
  const splitter = new SseSplitter((frame) => errors.push(frame.error));
  splitter.push(Buffer.from('error: {"code":500}\n\ndata: x\n\n'));
  expect(errors).toEqual(['{"code":500}', null]);
});

describe('a frame that is too long ends the stream', () => {
  test('in one endless line', () => {
    const chunk = Buffer.alloc(64 * 1024, 'x');
    const splitter = new SseSplitter(() => undefined);
    let bytes = 0;
    while (splitter.push(chunk) && bytes < 2 * frameBytesMax) bytes += chunk.length;
    expect(bytes).toBe(frameBytesMax);
    expect(splitter.push(Buffer.from('\n\ndata: x\n\n'))).toBe(false);
  });

  test('in endless lines of one byte, at a cost that does not grow quadratically', () => {
    const chunk = Buffer.from('d\n'.repeat(64));
    const splitter = new SseSplitter(() => undefined);
    let bytes = 0;
    while (splitter.push(chunk) && bytes < 2 * frameBytesMax) bytes += chunk.length;
    expect(bytes).toBe(frameBytesMax);
  });
});
