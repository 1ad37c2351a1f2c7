import { create } from '@bufbuild/protobuf';
import { type WatchAuthResponse, WatchAuthResponseSchema } from '#gen/modelgateway/auth/v1/feed_pb.ts';
import { callerOf, requireService } from '#shared/rpc/caller.ts';
import { heartbeatMs } from '#shared/rpc/follow-stream.ts';
import { Signal } from '#shared/signal.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';

/** Streams the state and then every change. The edge's lease opens first, so that no change falls between. */
export const watchAuth = ({ feed }: Pick<AuthDeps, 'feed'>): AuthRpc<'watchAuth'> =>
  async function* (request, context) {
    requireService(callerOf(context), 'edge');
    const waiting: WatchAuthResponse[] = [];
    const arrived = new Signal();
    const unsubscribe = feed.subscribe((event) => {
      waiting.push(event);
      arrived.raise();
    });
    try {
      await feed.leases.open(request.edgeId);
      const snapshot = await feed.snapshot();
      yield snapshot;
      while (!context.signal.aborted) {
        if (waiting.length === 0) await arrived.next(heartbeatMs, context.signal);
        const event = waiting.shift() ?? heartbeatAt(feed.version());
        if (event.version >= snapshot.version) yield event;
      }
    } finally {
      unsubscribe();
    }
  };

const heartbeatAt = (version: bigint): WatchAuthResponse =>
  create(WatchAuthResponseSchema, { version, event: { case: 'heartbeat', value: {} } });
