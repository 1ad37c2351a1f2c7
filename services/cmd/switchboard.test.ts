import { expect, test } from 'vitest';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { startFaultProxy } from '../../test/support/fault-proxy.ts';
import {
  asCaller,
  collect,
  invocation,
  keyId,
  serveRpc,
  testServiceSecret,
  testServices,
} from '../../test/support/rpc-carriers.ts';
import { Switchboard } from './switchboard.ts';

test('services at the same address have separate connections, so that large messages to one hold up no other', async () => {
  const services = testServices({
    keys: { getKey: () => ({}) },
    inference: {
      async *invoke() {
        yield { end: { success: true } };
      },
    },
  });
  await using served = await serveRpc(services);
  const { hostname: host, port } = new URL(served.url);
  await using proxy = await startFaultProxy({ target: { host, port: Number(port) } });
  const url = `http://${proxy.host}:${proxy.port}`;
  const urls = new Map(['keys', 'inference'].map((name) => [name, url]));
  const switchboard = new Switchboard({
    secrets: [testServiceSecret],
    urls,
    ownCertificate: undefined,
  });
  const inference = switchboard.client('edge', InferenceService);
  const keys = switchboard.client('edge', KeysService);
  for (let round = 0; round < 2; round += 1) {
    await keys.getKey({ keyId }, asCaller());
    await collect(inference.invoke(invocation, asCaller()));
  }
  expect(proxy.accepted).toBe(2);
  switchboard.close();
});
