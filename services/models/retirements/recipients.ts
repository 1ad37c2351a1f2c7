import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import type { CallOptions, Client } from '@connectrpc/connect';
import { NIL } from 'uuid';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { User } from '#gen/modelgateway/auth/v1/user_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { asService } from '#shared/rpc/caller.ts';
import { slicesOf } from '#shared/slices.ts';

export type RecipientDeps = {
  usage: Pick<Client<typeof UsageService>, 'listModelUsers'>;
  keys: Pick<Client<typeof KeysService>, 'listModelAllowlistUsers'>;
  auth: Pick<Client<typeof AuthService>, 'listActiveUsers' | 'getUsers'>;
};

/** How recently an organization must have used a model for its users to be recipients (decisions.md, Models). */
const usedWithinMs = 90 * 86_400_000;
const timeoutMs = 30_000;
const tenantsPerCall = 500;
const usersPerCall = 500;

/**
 * Who is told of a model's retirement, in batches: the active users of organizations that used it in the last 90 days or have it on an
 * allowlist. `grantedTo` limits this to organizations that may know of a private model, since anybody can write its name into an allowlist.
 */
export async function* recipients(
  { usage, keys, auth }: RecipientDeps,
  model: { name: string; grantedTo: ReadonlySet<string> | null },
  nowMs: number,
  signal: AbortSignal,
): AsyncGenerator<readonly User[]> {
  const options: CallOptions = { ...asService('models'), timeoutMs, signal };
  const tenants = new Set<string>();
  const since = timestampFromMs(nowMs - usedWithinMs);
  for await (const { tenantId } of usage.listModelUsers({ model: model.name, since }, options)) tenants.add(tenantId);
  for (let afterUserId = ''; ; ) {
    const { users } = await keys.listModelAllowlistUsers({ model: model.name, afterUserId }, options);
    if (users.length === 0) break;
    for (const { tenantId } of users) tenants.add(tenantId);
    afterUserId = users.at(-1)!.userId;
  }

  const told = [...tenants].filter((tenantId) => model.grantedTo?.has(tenantId) ?? true).sort();
  for (const tenantIds of slicesOf(told, tenantsPerCall)) {
    for (let afterUserId = ''; ; ) {
      const { users } = await auth.listActiveUsers({ tenantIds, afterUserId, limit: usersPerCall }, options);
      if (users.length === 0) break;
      yield users;
      afterUserId = users.at(-1)!.id;
    }
  }
}

/**
 * Who is told that a retirement was withdrawn, in batches: the users whom `findTold` names, if they are still active and their organization
 * may still know of the model.
 */
export async function* toldRecipients(
  { auth }: Pick<RecipientDeps, 'auth'>,
  findTold: (afterUserId: string, limit: number) => Promise<readonly string[]>,
  grantedTo: ReadonlySet<string> | null,
  signal: AbortSignal,
): AsyncGenerator<readonly User[]> {
  const options: CallOptions = { ...asService('models'), timeoutMs, signal };
  for (let afterUserId: string = NIL; ; ) {
    const userIds = await findTold(afterUserId, usersPerCall);
    if (userIds.length === 0) return;
    const { users } = await auth.getUsers({ userIds: [...userIds] }, options);
    yield users.filter(({ isActive, tenantId }) => isActive && (grantedTo?.has(tenantId) ?? true));
    afterUserId = userIds.at(-1)!;
  }
}
