import { expect, test } from 'vitest';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { asCaller, carry, keyId, testServices } from '../../../test/support/rpc-carriers.ts';
import { ErrorReason, gatewayError } from '../errors.ts';

test('why a call was refused for overload is logged from the first one on, and no line for each', async () => {
  const getKey = () => {
    throw gatewayError(ErrorReason.OVERLOADED, 'Try again.', { internal: 'the database is out of reach' });
  };
  await using carried = await carry('local', testServices({ keys: { getKey } }));
  const client = carried.client(KeysService);
  const warnings: unknown[] = [];
  for (let calls = 1; calls <= 3; calls += 1) {
    await expect(client.getKey({ keyId }, asCaller())).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
    warnings.push(carried.lines.filter(({ level }) => level === 40).length);
  }
  expect(warnings).toEqual([1, 1, 1]);
  expect(JSON.stringify(carried.lines)).toContain('the database is out of reach');
});

test('so is why calls were refused for their tokens, which anybody who reaches the port may send', async () => {
  await using carried = await carry('h2c', testServices({}));
  const client = carried.client(KeysService);
  for (let calls = 1; calls <= 3; calls += 1) {
    await expect(client.getKey({ keyId }, { headers: {} })).rejects.toMatchObject({
      reason: ErrorReason.UNAUTHENTICATED_SERVICE,
    });
  }
  expect(carried.lines.filter(({ level }) => (level as number) > 20)).toEqual([
    expect.objectContaining({ level: 40, err: expect.objectContaining({ reason: 'UNAUTHENTICATED_SERVICE' }) }),
  ]);
});

test('nor is there a line for each of calls whose tokens are wrong each in another way, and they do not hide an overload', async () => {
  const getKey = () => {
    throw gatewayError(ErrorReason.OVERLOADED, 'Try again.', { internal: 'the database is out of reach' });
  };
  await using carried = await carry('h2c', testServices({ keys: { getKey } }));
  const client = carried.client(KeysService);
  for (let calls = 1; calls <= 50; calls += 1) {
    const header = { alg: 'HS256', crit: [`call-${calls}`], [`call-${calls}`]: 1 };
    const token = [header, {}].map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.');
    const headers = { authorization: `Bearer ${token}.AAAA` };
    await expect(client.getKey({ keyId }, { headers })).rejects.toMatchObject({
      reason: ErrorReason.UNAUTHENTICATED_SERVICE,
    });
  }
  const logged = () => carried.lines.filter(({ level }) => (level as number) > 20).map(({ msg }) => msg);
  const refused = Array(10).fill('the service token of a call to modelgateway.keys.v1.KeysService/GetKey was refused');
  expect(logged()).toEqual(refused);
  await expect(client.getKey({ keyId }, asCaller())).rejects.toMatchObject({ reason: ErrorReason.OVERLOADED });
  expect(logged()).toEqual([...refused, expect.stringMatching(/^answering .*GetKey fails/)]);
});
