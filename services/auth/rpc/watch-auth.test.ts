import { expect, test } from 'vitest';
import type { GatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { asService } from '#shared/rpc/caller.ts';
import { publicUrl, startTestAuth } from '../../../test/support/auth.ts';

test('an edge that would refuse this Auth’s sessions is told no changes, and one of an earlier version all of them', async () => {
  await using fixture = await startTestAuth();
  const following = async (issuer: string): Promise<string> => {
    try {
      for await (const { event } of fixture.auth.watchAuth({ edgeId: uuidv7(), issuer }, asService('edge'))) {
        if (event.case === 'snapshot') return 'followed';
      }
      return 'ended';
    } catch (error) {
      return (error as GatewayError).message;
    }
  };
  expect(await following(publicUrl)).toBe('followed');
  expect(await following('')).toBe('followed');
  expect(await following('https://other.example')).toBe(
    `PUBLIC_URL differs: this edge has https://other.example, Auth has ${publicUrl}. Give both the same.`,
  );
});
