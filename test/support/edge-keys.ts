import type { Client } from '@connectrpc/connect';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { type Clock, systemClock } from '#shared/clock.ts';
import { ErrorReason, GatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { createKeyCredentials, type KeyCredentials } from '../../edge/snapshots/keys.ts';
import { testPeppers } from './keys.ts';
import { silentLogger } from './silent-logger.ts';
import { waitFor } from './wait-for.ts';

export type TestEdge = KeyCredentials & {
  /** The outcome of a request with the secret: `accepted`, or the name of the reason. */
  decide(secret: string): Promise<string>;
} & AsyncDisposable;

/** An edge's key credentials, once its feed is live. */
export async function startTestEdge(
  keys: Client<typeof KeysService>,
  options: { clock?: Clock; capacity?: number } = {},
): Promise<TestEdge> {
  const { clock = systemClock, capacity } = options;
  const edgeId = uuidv7();
  const credentials = createKeyCredentials({
    keys,
    edgeId,
    peppers: testPeppers,
    clock,
    logger: silentLogger,
    capacity,
  });
  await waitFor(() => credentials.isLive, { description: 'the feed of keys' });
  return Object.assign(credentials, {
    decide: async (secret: string) => {
      try {
        await credentials.authenticate(secret);
        return 'accepted';
      } catch (error) {
        if (!(error instanceof GatewayError)) throw error;
        return reasonNames.get(error.reason) ?? String(error.reason);
      }
    },
    [Symbol.asyncDispose]: () => credentials.close(),
  });
}

const reasonNames = new Map(Object.entries(ErrorReason).map(([name, reason]) => [reason as ErrorReason, name]));
