import type { Client } from '@connectrpc/connect';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { Logger } from '#shared/logger.ts';
import { startRecurringWork } from '#shared/recurring-work.ts';
import { asService } from '#shared/rpc/caller.ts';
import { OrganizationEntity } from '../db/organization.entity.ts';
import { UserEntity } from '../db/user.entity.ts';

export type KeysClient = Pick<Client<typeof KeysService>, 'refreshPrincipals'>;

/** Tells Keys about changed users and organizations: at once if it can be reached, otherwise as soon as it can. */
export type KeyRefreshes = {
  /** Records, in the transaction of a change, that Keys must hear of it. */
  record(em: SqlEntityManager, refresh: { kind: 'user' | 'tenant'; subjectId: string; version: bigint }): Promise<void>;
  /** Tells Keys everything recorded; resolves once its edges know. Fails when Keys is out of reach: then it is tried again later. */
  deliver(signal?: AbortSignal): Promise<void>;
  close(): Promise<void>;
};

const retryMs = 1_000;
const batchMax = 500;

type Pending = { version: bigint; kind: 'user' | 'tenant'; subject_id: string };

export function createKeyRefreshes(deps: {
  database: ServiceDatabase;
  keys: KeysClient;
  logger: Logger;
}): KeyRefreshes {
  const { database, keys, logger } = deps;

  const deliver = async (signal?: AbortSignal): Promise<void> => {
    for (;;) {
      const { rows } = await database.query<Pending>({
        name: 'auth-key-refreshes',
        text: `select version, kind, subject_id from key_refreshes order by version limit ${batchMax}`,
        values: [],
      });
      if (rows.length === 0) return;
      await keys.refreshPrincipals(await stateOf(rows), { ...asService('auth'), signal });
      await database.query({
        text: 'delete from key_refreshes where version = any($1::bigint[])',
        values: [rows.map(({ version }) => version)],
      });
    }
  };

  /** The current state. Its version is the recorded one, so that a newer record replaces it in any order. */
  const stateOf = async (pending: readonly Pending[]) => {
    const em = database.em();
    const idsOf = (kind: Pending['kind']) => pending.filter((row) => row.kind === kind).map((row) => row.subject_id);
    const users = new Map((await em.find(UserEntity, { id: { $in: idsOf('user') } })).map((row) => [row.id, row]));
    const tenants = new Map(
      (await em.find(OrganizationEntity, { id: { $in: idsOf('tenant') } })).map((row) => [row.id, row]),
    );
    return {
      users: pending.flatMap(({ kind, subject_id: id, version: authVersion }) => {
        const user = kind === 'user' ? users.get(id) : undefined;
        if (user === undefined) return [];
        const { tenantId, role, isActive } = user;
        return [{ userId: id, tenantId, role, isActive, authVersion }];
      }),
      tenants: pending.flatMap(({ kind, subject_id: id, version: authVersion }) => {
        const tenant = kind === 'tenant' ? tenants.get(id) : undefined;
        return tenant === undefined ? [] : [{ tenantId: id, suspended: tenant.suspendedAt != null, authVersion }];
      }),
    };
  };

  const retrying = startRecurringWork({
    name: 'telling Keys about users and organizations',
    everyMs: retryMs,
    round: deliver,
    logger,
  });

  return {
    async record(em, { kind, subjectId, version }) {
      await em.execute('insert into key_refreshes (version, kind, subject_id) values (?, ?, ?)', [
        String(version),
        kind,
        subjectId,
      ]);
    },
    deliver,
    close: () => retrying.close(),
  };
}
