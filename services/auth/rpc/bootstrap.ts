import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { callerOf, Role, requireService } from '#shared/rpc/caller.ts';
import { actorOf, recordAudit } from '../audit.ts';
import { OrganizationEntity } from '../db/organization.entity.ts';
import { UserEntity, type UserRow } from '../db/user.entity.ts';
import { findUserByEmail } from '../db/user.repository.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { normalEmail } from '../domain/email-address.ts';
import { requireStrongPassword } from '../domain/password-rule.ts';
import { wholeSecondMs } from '../tokens/session-tokens.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'passwords'>;

/** Creates the first operator, who owns the first organization, unless there is an operator already. */
export const bootstrap =
  ({ database, clock, passwords }: Deps): AuthRpc<'bootstrap'> =>
  async (request, context) => {
    const caller = callerOf(context);
    requireService(caller);
    // The usual start: nothing to do, and no password to hash.
    const existing = await findOperator(database.em());
    if (existing !== null) return answer(existing, existing.id === request.userId);

    requireStrongPassword(request.password, 'password');
    const passwordHash = await passwords.hash(request.email, request.password);
    return transaction(database, async (em) => {
      await takeAdvisoryLock(em, 'the first operator');
      const meanwhile = await findOperator(em);
      if (meanwhile !== null) return answer(meanwhile, meanwhile.id === request.userId);
      const email = normalEmail(request.email);
      if ((await findUserByEmail(em, email)) !== null) {
        throw gatewayError(
          ErrorReason.CONFLICT,
          'A user with this email address exists, but is not a platform operator.',
        );
      }
      const now = new Date(clock.now());
      const tenantId = uuidv7();
      em.create(OrganizationEntity, { id: tenantId, name: request.organizationName, createdAt: now });
      const user = em.create(UserEntity, {
        id: request.userId || uuidv7(),
        tenantId,
        email,
        firstName: '',
        lastName: '',
        role: Role.OWNER,
        operator: true,
        emailVerified: true,
        passwordHash,
        tokensNotBefore: new Date(wholeSecondMs(clock.now())),
        createdAt: now,
      });
      await em.flush();
      await recordAudit(em, clock, {
        tenantId,
        type: 'organization_created',
        actor: actorOf(caller),
        target: { type: 'organization', id: tenantId },
        after: { name: request.organizationName, owner_email: email },
      });
      return answer(user, true);
    });
  };

const findOperator = (em: SqlEntityManager): Promise<UserRow | null> =>
  em.findOne(UserEntity, { operator: true, isActive: true }, { orderBy: { id: 'asc' } });

const answer = (user: UserRow, created: boolean) => ({
  created,
  userId: user.id,
  email: user.email,
  tenantId: user.tenantId,
});
