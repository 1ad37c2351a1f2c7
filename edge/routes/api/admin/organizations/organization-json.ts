import { type Static, Type } from 'typebox';
import type { Organization } from '#gen/modelgateway/auth/v1/organization_pb.ts';
import { orNull } from '../../../../http/nullable.ts';
import { organizationJson, organizationSchema } from '../../user-json.ts';

/** An organization as operators see it. */
export const adminOrganizationSchema = Type.Object(
  { ...organizationSchema.properties, suspension_reason: orNull(Type.String()) },
  { $id: 'AdminOrganization' },
);
export const adminOrganizationJson = (organization: Organization): Static<typeof adminOrganizationSchema> => ({
  ...organizationJson(organization),
  suspension_reason: organization.suspensionReason || null,
});
