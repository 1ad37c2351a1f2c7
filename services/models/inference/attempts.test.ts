import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { CatalogSnapshotSchema } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { DeploymentStatus } from '#gen/modelgateway/models/v1/model_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { Catalog } from '../catalog/catalog.ts';
import type { MeteredCall } from '../metering/metered-call.ts';
import type { Upstream, UpstreamHandler, UpstreamRequest } from '../upstream/upstream.ts';
import { Attempts } from './attempts.ts';
import { type PreparedCall, textEstimate } from './prepared-call.ts';
import { WholeAnswerReader } from './whole-answer-reader.ts';

/** A model whose upstream refuses `stream_options` by name, for as long as it is told to. */
function startModel() {
  const clock = new ManualClock(0);
  const server = { refuses: true, asked: [] as string[] };
  const send = ({ body }: UpstreamRequest, handler: UpstreamHandler) => {
    const text = String(body[0]);
    server.asked.push(text);
    const isRefused = server.refuses && text !== '';
    const { status, answer } = isRefused ? { status: 400, answer: `No ${text} here.` } : { status: 200, answer: '{}' };
    process.nextTick(() => {
      handler.onHead({ status, header: () => undefined });
      handler.onData(Buffer.from(answer));
      handler.onEnd();
    });
    return { pause() {}, resume() {}, abort() {} };
  };
  const catalog = new Catalog({
    openUpstream: () => ({ send, redact: (text: string) => text }) as unknown as Upstream,
    metricsOf: () => ({ answered() {}, ended() {} }),
    clock,
    logger: silentLogger,
  });
  const deployments = [{ id: 'd', status: DeploymentStatus.RUNNING, settings: {} }];
  catalog.replace(create(CatalogSnapshotSchema, { version: 1n, models: [{ model: { name: 'm' }, deployments }] }));
  const call = {
    estimate: textEstimate(0, 0),
    contentType: 'application/json',
    bodyFor: ({ refusedFields }) => [Buffer.from(refusedFields.has('stream_options') ? '' : 'stream_options')],
    addedFields: () => ['stream_options'],
    reader: () => new WholeAnswerReader(() => null),
  } as Partial<PreparedCall> as PreparedCall;
  /** A call that takes so many minutes; returns what its upstream was asked with. */
  const callFor = async (minutes: number): Promise<string[]> => {
    const metered = { event: { requestId: '' } } as MeteredCall;
    const signal = { aborted: false, addEventListener() {}, removeEventListener() {} };
    const asked = { model: catalog.find('m')!, call, metered, signal, operation: Operation.CHAT_COMPLETIONS };
    const attempts = new Attempts(catalog, asked);
    await attempts.answered();
    clock.advance(minutes * 60_000);
    attempts.finish({ kind: 'good' });
    return server.asked.splice(0);
  };
  return { server, callFor };
}

test('a field that an upstream has refused is left out for an hour, and then tried again, since the server may be another by then', async () => {
  const { server, callFor } = startModel();
  expect(await callFor(0)).toEqual(['stream_options', '']);
  expect(await callFor(50)).toEqual(['']);
  expect(await callFor(11)).toEqual(['']);
  expect(await callFor(0)).toEqual(['stream_options', '']);
  server.refuses = false;
  expect(await callFor(60)).toEqual(['']);
  expect(await callFor(0)).toEqual(['stream_options']);
});
