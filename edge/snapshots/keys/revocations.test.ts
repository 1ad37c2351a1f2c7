import { expect, test } from 'vitest';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { silentLogger } from '../../../test/support/keys.ts';
import { localClient } from '../../../test/support/local-client.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { KeyPrincipal } from '../../principal.ts';
import { Revocations } from './revocations.ts';

test('whoever holds a connection with a key that ended unheard is told as soon as Keys can tell, however often it could not', async () => {
  const [ended, lives] = [uuidv7(), uuidv7()];
  const failing = new Map([
    [ended, 2],
    [lives, 1],
  ]);
  const keys = localClient(
    KeysService,
    {
      getPrincipal: ({ keyId }) => {
        const failures = failing.get(keyId) ?? 0;
        if (failures > 0) {
          failing.set(keyId, failures - 1);
          throw gatewayError(ErrorReason.OVERLOADED, 'Postgres is away.');
        }
        failing.delete(keyId);
        return keyId === lives ? { principal: {} } : {};
      },
    },
    silentLogger,
  );
  const revocations = new Revocations(keys, silentLogger);
  const told: string[] = [];
  for (const keyId of failing.keys()) {
    revocations.listen({ keyId } as KeyPrincipal, () => told.push(keyId));
  }
  revocations.checkAll();
  await waitFor(() => failing.size === 0, { description: 'Keys to have answered for both' });
  await revocations.close();
  expect(told).toEqual([ended]);
});
