import { create } from '@bufbuild/protobuf';
import { timestampFromDate } from '@bufbuild/protobuf/wkt';
import {
  type Organization,
  OrganizationSchema,
  OrganizationStatus,
} from '#gen/modelgateway/auth/v1/organization_pb.ts';
import { timestampOrUnset } from '#shared/db/timestamp.ts';
import type { WholeMessage } from '#shared/whole-message.ts';
import type { OrganizationRow } from './organization.entity.ts';

export const organizationMessage = (row: OrganizationRow): Organization =>
  create(OrganizationSchema, {
    id: row.id,
    name: row.name,
    status: row.suspendedAt == null ? OrganizationStatus.ACTIVE : OrganizationStatus.SUSPENDED,
    createdAt: timestampFromDate(row.createdAt),
    suspendedAt: timestampOrUnset(row.suspendedAt),
    suspensionReason: row.suspensionReason,
  } satisfies WholeMessage<typeof OrganizationSchema>);
