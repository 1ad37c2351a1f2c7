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
