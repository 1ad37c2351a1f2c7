import type { MessageInitShape } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import type { WatchAuthResponseSchema } from '#gen/modelgateway/auth/v1/feed_pb.ts';
import type { Clock } from '#shared/clock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import type { FeedSource } from '#shared/leased-feed/change-reader.ts';
import { signingKeyMessage } from '../db/signing-key.message.ts';
import { UserEntity, type UserRow } from '../db/user.entity.ts';
import { acceptedSigningKeys } from '../tokens/signing-keys.ts';
import type { Change } from './changes.ts';

export type AuthEvent = MessageInitShape<typeof WatchAuthResponseSchema> & { version: bigint };

type ChangeRow = { version: bigint; kind: Change['kind']; subject_id: string | null; forget_after: Date };

/** The events for edges: these start with a snapshot of everything they need. */
export function authEvents(database: ServiceDatabase, clock: Clock): FeedSource<ChangeRow, AuthEvent> {
  const signingKeys = async () => (await acceptedSigningKeys(database.em(), clock)).map(signingKeyMessage);
  const suspendedTenants = async () => {
    const text = 'select id from organizations where suspended_at is not null';
    const { rows } = await database.query<{ id: string }>({ text });
    return new Set(rows.map(({ id }) => id));
  };
  const usersOf = async (changes: readonly ChangeRow[]) => {
    const ids = subjectsOf(changes, 'user').map((change) => change.subject_id!);
    if (ids.length === 0) return new Map<string, UserRow>();
    const users = await database.em().find(UserEntity, { id: { $in: ids } });
    return new Map(users.map((user) => [user.id, user]));
  };

  return {
    async start(version) {
      const { rows: recent } = await database.query<ChangeRow>({
        text: `select distinct on (kind, subject_id) version, kind, subject_id, forget_after from changes
          where kind in ('session', 'user') and forget_after > $1 order by kind, subject_id, version desc`,
        values: [new Date(clock.now())],
      });
      const [users, keys, suspended] = await Promise.all([usersOf(recent), signingKeys(), suspendedTenants()]);
      const value = {
        signingKeys: keys,
        suspendedTenantIds: [...suspended],
        endedSessions: subjectsOf(recent, 'session').map(sessionEnded),
        changedUsers: subjectsOf(recent, 'user').map((change) => userChanged(users.get(change.subject_id!)!, change)),
      };
      return { version, event: { case: 'snapshot', value } };
    },
    async eventsOf(changes) {
      const [users, keys, suspended] = await Promise.all([
        usersOf(changes),
        changes.some(({ kind }) => kind === 'signing_keys') ? signingKeys() : [],
        changes.some(({ kind }) => kind === 'tenant') ? suspendedTenants() : new Set<string>(),
      ]);
      return changes.map((change): AuthEvent => {
        const { version, kind, subject_id: subjectId } = change;
        switch (kind) {
          case 'signing_keys':
            return { version, event: { case: 'signingKeysChanged', value: { signingKeys: keys } } };
          case 'tenant': {
            const value = { tenantId: subjectId!, suspended: suspended.has(subjectId!) };
            return { version, event: { case: 'tenantChanged', value } };
          }
          case 'session':
            return { version, event: { case: 'sessionEnded', value: sessionEnded(change) } };
          case 'user':
            return { version, event: { case: 'userChanged', value: userChanged(users.get(subjectId!)!, change) } };
          default:
            return kind satisfies never;
        }
      });
    },
  };
}

const subjectsOf = (changes: readonly ChangeRow[], kind: Change['kind']) =>
  changes.filter((change) => change.kind === kind);

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
