import { setImmediate } from 'node:timers/promises';
import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import {
  type CallerConstraints,
  CallerConstraintsSchema,
  TranscribeStartSchema,
} from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { DeploymentStatus, UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Caller } from '#shared/rpc/caller.ts';
import type { ServedModel } from '../catalog/catalog.ts';
import { freeOfCharge } from '../domain/fixtures/free-of-charge.ts';
import type { PriceVersion } from '../domain/price.ts';
import type { Hold } from '../limits/hold.ts';
import { BackendContext, type SessionDeps } from './backend.ts';
import { ServerEvents } from './server-events.ts';
import { TranscriptionSession } from './transcription-session.ts';

const capped = (spendCapNanoUsd: bigint): CallerConstraints => create(CallerConstraintsSchema, { spendCapNanoUsd });

/** A budget near its limit: it has room for one hold, and answers one or two turns later, as Billing does. */
function contextNearItsLimit() {
  const held: { cap: bigint | undefined; costMax: bigint | null; isOpen: boolean }[] = [];
  const hold = async (
    _caller: unknown,
    constraints: Pick<CallerConstraints, 'spendCapNanoUsd'> | undefined,
    costMax: bigint | null,
  ): Promise<Hold> => {
    await setImmediate();
    if (held.some(({ isOpen }) => isOpen)) throw new Error('refused');
    const one = { cap: constraints?.spendCapNanoUsd, costMax, isOpen: true };
    held.push(one);
    const settle = async (): Promise<void> => {
      for (let turn = 0; turn < 2; turn += 1) await setImmediate();
      one.isOpen = false;
    };
    return { leaseIds: [], costAllowedNanoUsd: null, settle };
  };
  const prices: PriceVersion[] = [];
  const model = {
    operations: new Set([Operation.REALTIME_TRANSCRIPTION]),
    grantedTenants: null,
    retirement: null,
    prices,
    deployments: [
      {
        available: true,
        inFlight: 0,
        concurrencyMax: 1,
        settings: { dialect: UpstreamDialect.VLLM },
        status: DeploymentStatus.RUNNING,
      },
    ],
    retryBudget: { deposit: () => {} },
  };
  const catalog = { find: () => model as unknown as ServedModel };
  const deps = {
    budgets: { hold },
    clock: { now: () => 0 },
    catalog,
    journal: { healthy: true },
  } as unknown as SessionDeps;
  const context = new BackendContext({
    deps,
    caller: {} as Caller,
    constraints: capped(1n),
    modelName: 'transcriber',
    events: new ServerEvents(),
    signal: new AbortController().signal,
    sayUpdated: () => {},
  });
  return { context, held, prices, deps };
}

test('two simultaneous checks that an utterance can be paid for share what is held for it', async () => {
  const { context, held } = contextNearItsLimit();
  await Promise.all([context.prepare(), context.prepare()]);
  expect(held).toHaveLength(1);
});

test('speech during the move to another cap waits for the room that is given back', async () => {
  const { context, held } = contextNearItsLimit();
  await context.prepare();
  await Promise.all([context.constrain(capped(2n)), context.prepare()]);
  expect(held).toEqual([
    { cap: 1n, costMax: null, isOpen: false },
    { cap: 2n, costMax: null, isOpen: true },
  ]);
});

test('a cap that arrives while room is requested under another replaces it', async () => {
  const { context, held } = contextNearItsLimit();
  await Promise.all([context.prepare(), context.constrain(capped(2n))]);
  expect(held.map(({ cap }) => cap)).toEqual([1n, 2n]);
});

test('the same cap reported again gives no room away', async () => {
  const { context, held } = contextNearItsLimit();
  await context.prepare();
  await context.constrain(capped(1n));
  expect(held).toEqual([{ cap: 1n, costMax: null, isOpen: true }]);
});

test('room still being requested when the session ends is given back', async () => {
  const { context, held } = contextNearItsLimit();
  await Promise.all([context.prepare(), context.close()]);
  expect(held).toEqual([{ cap: 1n, costMax: null, isOpen: false }]);
});

test('the next utterance is paid for at the price at which it will be charged, though room was held at another', async () => {
  const { context, held, prices } = contextNearItsLimit();
  for (const perRequest of [3n, 5n]) {
    prices[0] = { ...freeOfCharge, id: `at ${perRequest}`, perRequest };
    await context.prepare();
  }
  expect(held.map(({ costMax, isOpen }) => [costMax, isOpen])).toEqual([
    [3n, false],
    [5n, true],
  ]);
});

test('as much is held for an utterance as is believed of two minutes, with the longest prompt so far', async () => {
  const { context, held, prices } = contextNearItsLimit();
  const each = 1_000_000n;
  prices[0] = { ...freeOfCharge, id: 'per token', inputPerMillionTokens: each, outputPerMillionTokens: each };
  for (const promptBytes of [100, 60_000, 50]) {
    context.expectPrompt(promptBytes);
    await context.prepare();
  }
  expect(held.map(({ costMax, isOpen }) => [costMax, isOpen])).toEqual([
    [4n * (1_200n + 450n) + 100n, false],
    [4n * (1_200n + 450n) + 60_000n, true],
  ]);
});

test('a session whose utterances the gateway sends holds room for its present prompt, however long an earlier one was', async () => {
  const { deps, held, prices } = contextNearItsLimit();
  prices[0] = { ...freeOfCharge, id: 'per token', inputPerMillionTokens: 1_000_000n };
  const session = new TranscriptionSession({
    deps,
    caller: {} as Caller,
    start: create(TranscribeStartSchema, { constraints: capped(1n), model: 'transcriber' }),
    events: new ServerEvents(),
    signal: new AbortController().signal,
  });
  const transcriptions = ['Ada', 'Names: Ada, Grace.', 'Ada'].map((prompt) => ({ model: 'transcriber', prompt }));
  for (const transcription of transcriptions) {
    const update = { type: 'session.update', session: { type: 'transcription', audio: { input: { transcription } } } };
    await session.take(JSON.stringify(update));
  }
  await session.take(
    JSON.stringify({ type: 'input_audio_buffer.append', audio: Buffer.alloc(4_800).toString('base64') }),
  );
  const promptBytes = Buffer.byteLength(JSON.stringify(transcriptions[0]));
  expect(held.map(({ costMax, isOpen }) => [costMax, isOpen])).toEqual([[4n * 1_200n + BigInt(promptBytes), true]]);
  await session.close();
});

test('a session that begins with an update holds room for its prompt at once, and gives none away to hold more', async () => {
  const { deps, held, prices } = contextNearItsLimit();
  prices[0] = { ...freeOfCharge, id: 'per token', inputPerMillionTokens: 1_000_000n };
  const session = new TranscriptionSession({
    deps,
    caller: {} as Caller,
    start: create(TranscribeStartSchema, { constraints: capped(1n) }),
    events: new ServerEvents(),
    signal: new AbortController().signal,
  });
  const transcription = { model: 'transcriber', prompt: 'Names: Ada, Grace.' };
  const update = { type: 'session.update', session: { type: 'transcription', audio: { input: { transcription } } } };
  const silence = { type: 'input_audio_buffer.append', audio: Buffer.alloc(4_800).toString('base64') };
  for (const event of [update, silence]) await session.take(JSON.stringify(event));
  const promptBytes = Buffer.byteLength(JSON.stringify(transcription));
  expect(held.map(({ costMax, isOpen }) => [costMax, isOpen])).toEqual([[4n * 1_200n + BigInt(promptBytes), true]]);
  await session.close();
});
