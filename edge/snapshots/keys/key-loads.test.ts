import { create } from '@bufbuild/protobuf';
import { expect, test } from 'vitest';
import { AuthenticateResponseSchema } from '#gen/modelgateway/keys/v1/principal_pb.ts';
import { ErrorReason } from '#shared/errors.ts';
import { KeyLoads } from './key-loads.ts';

const anyone = { names: [], messages: [] };
const overloaded = { reason: ErrorReason.OVERLOADED };

test('at most 2,000 look-ups of keys run at a time, and each makes room when it is answered or fails', async () => {
  const answer = create(AuthenticateResponseSchema);
  const running: PromiseWithResolvers<typeof answer>[] = [];
  const loads = new KeyLoads({
    authenticate() {
      const lookUp = Promise.withResolvers<typeof answer>();
      running.push(lookUp);
      return lookUp.promise;
    },
  });
  const first = Array.from({ length: 2_000 }, () => loads.ask(anyone));
  await expect(loads.ask(anyone)).rejects.toMatchObject(overloaded);
  expect(running).toHaveLength(2_000);

  running[0]!.resolve(answer);
  running[1]!.reject(new Error('Keys is out of reach'));
  expect(await first[0]).toBe(answer);
  await expect(first[1]).rejects.toMatchObject(overloaded);
  const next = [loads.ask(anyone), loads.ask(anyone)];
  await expect(loads.ask(anyone)).rejects.toMatchObject(overloaded);
  for (const lookUp of running) lookUp.resolve(answer);
  await Promise.all([...first.slice(2), ...next]);
});
