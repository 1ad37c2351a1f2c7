import fc from 'fast-check';
import { kind, weighing } from '../random-histories.ts';

/** Silence, a word and silence again, in milliseconds, sent in pieces of this many bytes. */
const sound = kind('append', {
  quietMs: fc.constantFrom(0, 0, 30, 250, 700),
  loudMs: fc.constantFrom(0, 40, 110, 300, 600),
  restMs: fc.constantFrom(200, 300, 550, 800),
  pieceBytes: fc.constantFrom(1_000_000, 1_000_000, 9_600, 4_801, 997),
});

/** What the client of a session says; with `hasHalf`, half a sample comes before it. */
const said = fc.oneof(
  weighing(12, sound),
  weighing(6, kind('commit', { hasHalf: fc.boolean() })),
  weighing(2, kind('clear', { hasHalf: fc.boolean() })),
  weighing(
    3,
    kind('listen', { silenceMs: fc.constantFrom(null, null, 0, 200, 500), paddingMs: fc.constantFrom(0, 300) }),
  ),
  weighing(2, kind('format', { rate: fc.constantFrom(8_000, 16_000, 24_000) })),
  weighing(2, kind('mistake', { which: fc.constantFrom('type', 'audio', 'rate', 'base64') })),
);

/** What happens to a session. Things said together are sent before any answer has come. */
export const act = fc.oneof(
  weighing(12, kind('say', { events: fc.array(said, { minLength: 1, maxLength: 5 }) })),
  weighing(2, kind('model', { name: fc.constantFrom('files', 'vllm', 'relay') })),
  weighing(1, kind('fail next', {})),
  weighing(1, kind('leave', { atOnce: fc.boolean() })),
);

export type Said = typeof said extends fc.Arbitrary<infer One> ? One : never;
export type Act = typeof act extends fc.Arbitrary<infer One> ? One : never;
export type Model = 'files' | 'vllm' | 'relay';
