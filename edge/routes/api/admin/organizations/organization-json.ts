import type { Organization } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import { organizationJson } from '../../user-json.ts';

/** An organization as operators see it. */
export const adminOrganizationJson = (organization: Organization) => ({
  ...organizationJson(organization),
  suspension_reason: organization.suspensionReason || null,
});
