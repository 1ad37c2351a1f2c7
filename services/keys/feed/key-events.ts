import type { MessageInitShape } from '@bufbuild/protobuf';
import type { WatchKeysResponseSchema } from '#gen/modelgateway/keys/v1/feed_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { FeedSource } from '#shared/leased-feed/change-reader.ts';
import type { Role } from '#shared/rpc/caller.ts';
import type { Change, RemovedDigest } from '../db/changes.ts';
import { livePrincipals, type PrincipalRow, principalColumns, principalMessage } from '../db/principals.ts';

export type KeyEvent = MessageInitShape<typeof WatchKeysResponseSchema> & { version: bigint };

type ChangeRow = {
  version: bigint;
  kind: Change['kind'];
  tenant_id: string;
  subject_id: string;
  removed_digests: RemovedDigest[];
};

type OwnerRow = { user_id: string; role: Role; is_active: boolean; auth_version: string };
type TenantRow = { tenant_id: string; suspended: boolean; auth_version: string };

type Database = Pick<ServiceDatabase, 'query'>;

/** The events for edges: these start with an empty cache and look up what they need. */
export const keyEvents = (database: Database): FeedSource<ChangeRow, KeyEvent> => ({
  start: async (version) => ({ version, event: { case: 'cacheReset', value: {} } }),
  async eventsOf(changes) {
    const states = await readStates(database, changes);
    return changes.flatMap((change) => eventsOf(change, states));
  },
});

type States = {
  principals: ReadonlyMap<string, PrincipalRow[]>;
  owners: ReadonlyMap<string, OwnerRow>;
  tenants: ReadonlyMap<string, TenantRow>;
};

async function readStates(database: Database, changes: readonly ChangeRow[]): Promise<States> {
  const idsOf = (kind: Change['kind']): string[] => [
    ...new Set(changes.filter((change) => change.kind === kind).map(({ subject_id }) => subject_id)),
  ];
  const query = async <Row extends object>(name: string, text: string, ids: string[]): Promise<Row[]> =>
    ids.length === 0 ? [] : (await database.query<Row>({ name, text, values: [ids] })).rows;

  const principals = await query<PrincipalRow>(
    'keys-feed-principals',
    `select feed.version, ${principalColumns} from feed, ${livePrincipals} where keys.id = any($1)`,
    idsOf('key_changed'),
  );
  const owners = await query<OwnerRow>(
    'keys-feed-owners',
    'select user_id, role, is_active, auth_version from owners where user_id = any($1)',
    idsOf('owner_changed'),
  );
  const tenants = await query<TenantRow>(
    'keys-feed-tenants',
    'select tenant_id, suspended, auth_version from tenants where tenant_id = any($1)',
    idsOf('tenant_changed'),
  );
  return {
    principals: Map.groupBy(principals, ({ id }) => id),
    owners: new Map(owners.map((owner) => [owner.user_id, owner])),
    tenants: new Map(tenants.map((tenant) => [tenant.tenant_id, tenant])),
  };
}

function eventsOf(change: ChangeRow, states: States): KeyEvent[] {
  const { version, kind, tenant_id: tenantId, subject_id: subjectId } = change;
  switch (kind) {
    case 'key_changed':
      return keyChangedEvents(states.principals.get(subjectId) ?? [], version);
    case 'key_removed':
    case 'secret_removed': {
      const digests = change.removed_digests.map(({ pepper, digest }) => ({
        pepperVersion: pepper,
        digest: Buffer.from(digest, 'hex'),
      }));
      const value = { keyId: subjectId, digests, wholeKey: kind === 'key_removed' };
      return [{ version, event: { case: 'keyRemoved', value } }];
    }
    case 'tenant_changed': {
      const tenant = states.tenants.get(subjectId)!;
      const value = { tenantId, suspended: tenant.suspended, authVersion: BigInt(tenant.auth_version) };
      return [{ version, event: { case: 'tenantChanged', value } }];
    }
    case 'owner_changed': {
      const { role, is_active: isActive, auth_version } = states.owners.get(subjectId)!;
      const value = { userId: subjectId, tenantId, role, isActive, authVersion: BigInt(auth_version) };
      return [{ version, event: { case: 'userChanged', value } }];
    }
    default:
      return kind satisfies never;
  }
}

/**
 * One event for each time at which secrets of the key expire. All but the last carry the previous version: an edge that acknowledges a
 * version must know all of it. A key removed in the meantime has no event; its removal follows.
 */
function keyChangedEvents(rows: readonly PrincipalRow[], version: bigint): KeyEvent[] {
  const groups = [...Map.groupBy(rows, ({ secret_expires_at }) => secret_expires_at?.getTime() ?? null).values()];
  return groups.map((group, index) => ({
    version: index === groups.length - 1 ? version : version - 1n,
    event: {
      case: 'keyChanged',
      value: {
        digests: group.map(({ digest, pepper_version }) => ({ pepperVersion: pepper_version, digest })),
        principal: principalMessage(group[0]!),
      },
    },
  }));
}
