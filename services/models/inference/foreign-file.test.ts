import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create } from '@bufbuild/protobuf';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { uuidv7 } from '#shared/ids.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { rpcService } from '#shared/rpc/rpc-service.ts';
import { startTestGateway, type TestGateway } from '../../../test/support/gateway.ts';
import { type Carrier, carry } from '../../../test/support/rpc-carriers.ts';
import { silentLogger } from '../../../test/support/silent-logger.ts';
import { type StartedInference, startInference } from '../start-inference.ts';
import { connectUpstream } from '../upstream/connect.ts';

let gateway: TestGateway;
let inference: StartedInference;
let folder: string;
let spooled: string;

beforeAll(async () => {
  gateway = await startTestGateway();
  folder = mkdtempSync(join(tmpdir(), 'foreign-file-'));
  spooled = join(folder, 'form');
  const part = (disposition: string, text: string) =>
    `--edge\r\ncontent-disposition: form-data; ${disposition}\r\n\r\n${text}\r\n`;
  const form = part('name="model"', 'named-in-the-file') + part('name="file"; filename="a.wav"', 'sound');
  writeFileSync(spooled, `${form}--edge--\r\n`);
  const { switchboard } = gateway.gateway;
  inference = await startInference({
    models: switchboard.client('inference', ModelsService),
    usage: switchboard.client('inference', UsageService),
    billing: switchboard.client('inference', BillingService),
    connectUpstream: connectUpstream({ clock: systemClock, secret: () => undefined }),
    dataDir: folder,
    journalSync: 'group',
    clock: systemClock,
    logger: silentLogger,
    registry: new Registry(),
    bodiesBytesMax: 1024 ** 3,
    onFatal(error) {
      throw error;
    },
  });
});
afterAll(async () => {
  await inference?.close();
  await gateway?.[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

/** How a call that names a file as its body fails, both run directly and as a background job. */
async function failures(carrier: Carrier, bodyFile: string): Promise<unknown[]> {
  const services = [rpcService(InferenceService, inference.implementation, { callers: ['edge'] })];
  await using rpc = await carry(carrier, services);
  const client = rpc.client(InferenceService);
  const caller = create(CallerSchema, { kind: CallerKind.SESSION, tenantId: uuidv7(), userId: uuidv7() });
  const options = () => ({ contextValues: callerContext(caller) });
  const call = {
    operation: Operation.AUDIO_TRANSCRIPTIONS,
    contentType: 'multipart/form-data; boundary=edge',
    bodyFile,
  };
  const invoked = client.invoke(call, options())[Symbol.asyncIterator]().next();
  return await Promise.all(
    [invoked, client.admitJob({ call }, options())].map((answer) => answer.catch((error) => error)),
  );
}

test('the edge of the same process has a body read from the file to which it spooled it', async () => {
  for (const error of await failures('local', spooled)) {
    expect(error).toMatchObject({ message: expect.stringContaining('`named-in-the-file`') });
  }
});

describe.each(['h2c', 'tls'] as const)('over %s', (carrier) => {
  test('a body given as a file name is refused unread, whether or not there is such a file', async () => {
    for (const path of [spooled, join(folder, 'no-such-file')]) {
      for (const error of await failures(carrier, path)) {
        expect(error).toMatchObject({
          message: 'A body cannot be given as a file over the network.',
          details: { param: 'body_file' },
        });
      }
    }
  });
});
