import type { ServiceImpl } from '@connectrpc/connect';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { KeyPepper } from '#shared/env/secrets.ts';
import type { LeasedFeed } from '#shared/leased-feed/leased-feed.ts';
import type { DigestLookUp } from './authentication/digest-look-up.ts';
import type { KeyEvent } from './feed/key-events.ts';
import type { LeaseKeeper } from './feed/lease-keeper.ts';

/** What Keys' RPCs depend on; assembled in start.ts. */
export type KeysDeps = {
  database: ServiceDatabase;
  feed: LeasedFeed<KeyEvent>;
  leases: LeaseKeeper;
  digestLookUp: DigestLookUp;
  /** The one in use first: it makes new digests. */
  peppers: readonly KeyPepper[];
  clock: Clock;
};

/** The implementation of one RPC. */
export type KeysRpc<Name extends keyof ServiceImpl<typeof KeysService>> = ServiceImpl<typeof KeysService>[Name];
