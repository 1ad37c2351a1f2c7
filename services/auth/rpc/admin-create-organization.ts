import {
  AdminCreateOrganizationRequestSchema,
  AdminCreateOrganizationResponseSchema,
} from '#gen/modelgateway/auth/v1/organization_pb.ts';
import { transaction } from '#shared/db/transaction.ts';
import { invalidRequest } from '#shared/errors.ts';
import { once } from '#shared/idempotency.ts';
import { uuidv7 } from '#shared/ids.ts';
import { operatorCaller, Role } from '#shared/rpc/caller.ts';
import { shownName } from '#shared/safe-text.ts';
import { actorOf, recordAudit } from '../audit.ts';
import { invitationMessage } from '../db/invitation.message.ts';
import { OrganizationEntity } from '../db/organization.entity.ts';
import { organizationMessage } from '../db/organization.message.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { normalEmail } from '../domain/email-address.ts';
import { invite } from '../invite.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'outbox' | 'publicUrl'>;

/** Makes an organization and mails its owner an invitation; without a name, accepting the invitation makes it. */
export const adminCreateOrganization =
  (deps: Deps): AuthRpc<'adminCreateOrganization'> =>
  async (request, context) => {
    const { database, clock } = deps;
    const caller = operatorCaller(context);
    const name = shownName(request.name.trim(), 'name');
    if (request.name !== '' && name.length < 2) {
      throw invalidRequest('name', 'Invalid value for `name`: it needs 2 to 255 characters.');
    }
    const call = {
      caller,
      key: request.idempotencyKey,
      request,
      requestSchema: AdminCreateOrganizationRequestSchema,
      responseSchema: AdminCreateOrganizationResponseSchema,
      nowMs: clock.now(),
    };
    return transaction(database, (em) =>
      once(em, call, async () => {
        const organization =
          name === '' ? null : em.create(OrganizationEntity, { id: uuidv7(), name, createdAt: new Date(clock.now()) });
        if (organization !== null) {
          await em.flush();
          await recordAudit(em, clock, {
            tenantId: organization.id,
            type: 'organization_created',
            actor: actorOf(caller, true),
            target: { type: 'organization', id: organization.id },
            after: { name },
          });
        }
        const email = normalEmail(request.ownerEmail);
        const invitation = await invite(
          em,
          { organization, email, role: Role.OWNER },
          { userId: caller.userId, actor: actorOf(caller, true) },
          deps,
        );
        return {
          organization: organization === null ? undefined : organizationMessage(organization),
          invitation: invitationMessage(invitation, clock.now()),
        };
      }),
    );
  };
