import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import { type WatchAuthResponse, WatchAuthResponseSchema } from '#gen/modelgateway/auth/v1/feed_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { listen } from '#shared/db/notify.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { OrganizationEntity } from '../db/organization.entity.ts';
import { signingKeyMessage } from '../db/signing-key.message.ts';
import { UserEntity, type UserRow } from '../db/user.entity.ts';
import { acceptedSigningKeys } from '../tokens/signing-keys.ts';
import { type Change, changesChannel } from './changes.ts';
import { createEdgeLeases, type EdgeLeases } from './edge-leases.ts';

/** Tells edges, and this process, of every committed change, in the order of the versions. */
export type Feed = {
  leases: EdgeLeases;
  /** The version of the last change which was told. */
  version(): bigint;
  /** Hands each event to `listener` until the returned function is called. */
  subscribe(listener: (event: WatchAuthResponse) => void): () => void;
  /** The state from which an edge starts. */
  snapshot(): Promise<WatchAuthResponse>;
  close(): Promise<void>;
};

/** The wait before changes are read again when the database was out of reach, in milliseconds. */
const retryMs = 200;

type ChangeRow = { version: bigint; kind: Change['kind']; subject_id: string | null; forget_after: Date };

export async function openFeed(deps: {
  database: ServiceDatabase;
  connection: DatabaseUrl;
  clock: Clock;
  logger: Logger;
}): Promise<Feed> {
  const { database, connection, clock, logger } = deps;
  const listeners = new Set<(event: WatchAuthResponse) => void>();
  const { rows } = await database.query<{ version: bigint }>({ text: 'select version from feed' });
  let told = rows[0]!.version;
  let telling: Promise<void> | null = null;
  let again = false;
  let closed = false;

  const tellNew = async (): Promise<void> => {
    const changes = await database.query<ChangeRow>({
      name: 'auth-changes-after',
      text: 'select version, kind, subject_id, forget_after from changes where version > $1 order by version',
      values: [told],
    });
    for (const change of changes.rows) {
      const event = await eventOf(change);
      told = change.version;
      for (const listener of listeners) listener(event);
    }
  };
  /** One reader at a time, so that the order is kept; a notification meanwhile makes it read once more. */
  const tell = (): void => {
    if (telling !== null) {
      again = true;
      return;
    }
    again = false;
    telling = tellNew()
      .catch((err) => {
        logger.warn({ err }, 'changes could not be read; trying again');
        if (!closed) setTimeout(tell, retryMs).unref();
      })
      .finally(() => {
        telling = null;
        if (again && !closed) tell();
      });
  };

  async function eventOf(change: ChangeRow): Promise<WatchAuthResponse> {
    const { version } = change;
    const em = database.em();
    switch (change.kind) {
      case 'signing_keys': {
        const signingKeys = (await acceptedSigningKeys(em, clock)).map(signingKeyMessage);
        return create(WatchAuthResponseSchema, {
          version,
          event: { case: 'signingKeysChanged', value: { signingKeys } },
        });
      }
      case 'tenant': {
        const tenantId = change.subject_id!;
        const organization = await em.findOne(OrganizationEntity, { id: tenantId });
        const value = { tenantId, suspended: organization?.suspendedAt != null };
        return create(WatchAuthResponseSchema, { version, event: { case: 'tenantChanged', value } });
      }
      case 'session':
        return create(WatchAuthResponseSchema, {
          version,
          event: { case: 'sessionEnded', value: sessionEnded(change) },
        });
      case 'user': {
        const user = await em.findOneOrFail(UserEntity, { id: change.subject_id! });
        return create(WatchAuthResponseSchema, {
          version,
          event: { case: 'userChanged', value: userChanged(user, change) },
        });
      }
    }
  }

  const listener = await listen({ connection, channels: { [changesChannel]: tell }, onGap: tell, logger });

  return {
    leases: createEdgeLeases(database),
    version: () => told,
    subscribe(each) {
      listeners.add(each);
      return () => listeners.delete(each);
    },
    async snapshot() {
      // The version is read first: what changes between the reads is told again afterwards.
      const versions = await database.query<{ version: bigint }>({ text: 'select version from feed' });
      const em = database.em();
      const [signingKeys, suspended, recent] = await Promise.all([
        acceptedSigningKeys(em, clock),
        database.query<{ id: string }>({ text: 'select id from organizations where suspended_at is not null' }),
        database.query<ChangeRow>({
          text: `select distinct on (kind, subject_id) version, kind, subject_id, forget_after from changes
            where kind in ('session', 'user') and forget_after > $1 order by kind, subject_id, version desc`,
          values: [new Date(clock.now())],
        }),
      ]);
      const userChanges = recent.rows.filter(({ kind }) => kind === 'user');
      const users = await database.em().find(UserEntity, { id: { $in: userChanges.map((row) => row.subject_id!) } });
      const usersById = new Map(users.map((user) => [user.id, user]));
      return create(WatchAuthResponseSchema, {
        version: versions.rows[0]!.version,
        event: {
          case: 'snapshot',
          value: {
            signingKeys: signingKeys.map(signingKeyMessage),
            suspendedTenantIds: suspended.rows.map(({ id }) => id),
            endedSessions: recent.rows.filter(({ kind }) => kind === 'session').map(sessionEnded),
            changedUsers: userChanges.map((change) => userChanged(usersById.get(change.subject_id!)!, change)),
          },
        },
      });
    },
    async close() {
      closed = true;
      await listener.close();
      await telling;
    },
  };
}

const sessionEnded = (change: ChangeRow) => ({
  sessionId: change.subject_id!,
  forgetAfter: timestampFromDate(change.forget_after),
});

const userChanged = (user: UserRow, change: ChangeRow) => ({
  userId: user.id,
  tokensNotBefore: timestampFromDate(user.tokensNotBefore),
  isActive: user.isActive,
  role: user.role,
  operator: user.operator,
  forgetAfter: timestampFromDate(change.forget_after),
});
