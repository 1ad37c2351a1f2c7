import fc from 'fast-check';
import { kind, weighing } from '../random-histories.ts';

/** Picks one of what exists at the time. */
const pick = fc.nat(10_000);
const model = fc.nat(4);
const visibility = fc.constantFrom('public', 'private');

/** What operators do to a catalog of five models, and its users to the allowlist of a key. */
export const act = fc.oneof(
  weighing(5, kind('create', { model, visibility })),
  weighing(3, kind('publish', { model, visibility })),
  weighing(2, kind('import', { model, visibility })),
  weighing(5, kind('grant', { model, organization: fc.nat(1) })),
  weighing(3, kind('revoke', { model, organization: fc.nat(1) })),
  weighing(2, kind('delete', { model })),
  weighing(5, kind('deploy', { model, upstream: fc.constantFrom('sandbox-chat', 'sandbox-chat-mini') })),
  weighing(1, kind('undeploy', { model, pick })),
  // The last one is a model of the sandbox.
  weighing(
    7,
    kind('announce', {
      model,
      successor: fc.option(fc.nat(5), { nil: null, freq: 4 }),
      days: fc.constantFrom(null, 3, 9),
    }),
  ),
  weighing(4, kind('date', { model, days: fc.constantFrom(-1, 2, 8) })),
  weighing(2, kind('withdraw', { model })),
  weighing(2, kind('allow', { models: fc.subarray([0, 1, 2, 3, 4]) })),
  weighing(3, kind('wait', { days: fc.constantFrom(1, 4) })),
);
export type Act = typeof act extends fc.Arbitrary<infer One> ? One : never;
