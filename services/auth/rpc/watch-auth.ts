import { create } from '@bufbuild/protobuf';
import { type WatchAuthResponse, WatchAuthResponseSchema } from '#gen/modelgateway/auth/v1/feed_pb.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** How often an edge hears from us when nothing happens, in milliseconds (auth/v1/feed.proto). */
const heartbeatMs = 500;

/** Streams the state and then every change. The edge's lease opens first, so that no change falls between. */
export const watchAuth = ({ feed }: Pick<AuthDeps, 'feed'>): AuthRpc<'watchAuth'> =>
  async function* (request, context) {
    requireService(callerOf(context), 'edge');
    const waiting: WatchAuthResponse[] = [];
    let wake: () => void = () => {};
    const unsubscribe = feed.subscribe((event) => {
      waiting.push(event);
      wake();
    });
    const heartbeat = setInterval(() => {
      if (waiting.length === 0) waiting.push(heartbeatAt(feed.version()));
      wake();
    }, heartbeatMs);
    const stop = (): void => wake();
    context.signal.addEventListener('abort', stop);
    try {
      await feed.leases.open(request.edgeId);
      const snapshot = await feed.snapshot();
      yield snapshot;
      while (!context.signal.aborted) {
        const event = waiting.shift();
        if (event === undefined) {
          await new Promise<void>((resolve) => {
            wake = resolve;
            if (context.signal.aborted) resolve();
          });
        } else if (event.version >= snapshot.version) {
          yield event;
        }
      }
    } finally {
      context.signal.removeEventListener('abort', stop);
      clearInterval(heartbeat);
      unsubscribe();
    }
  };

const heartbeatAt = (version: bigint): WatchAuthResponse =>
  create(WatchAuthResponseSchema, { version, event: { case: 'heartbeat', value: {} } });
