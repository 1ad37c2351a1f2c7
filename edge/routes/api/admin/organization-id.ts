import type { CallOptions, Client } from '@connectrpc/connect';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { idInPath } from '../id-in-path.ts';

/** An organization's id from the path. */
export const organizationId = (text: string): string => idInPath(text, 'organization');

/** The id of an organization, which must exist: Billing and Keys know organizations only by their ids, and would accept any. */
export async function existingOrganization(
  auth: Pick<Client<typeof AuthService>, 'adminGetOrganization'>,
  text: string,
  options: CallOptions,
): Promise<string> {
  const tenantId = organizationId(text);
  await auth.adminGetOrganization({ tenantId }, options);
  return tenantId;
}
