import { create } from '@bufbuild/protobuf';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import type { Switchboard } from '../switchboard.ts';
import type { AdminContext } from './command.ts';

/** The services as commands call them, as a platform operator. */
export const operatorClients = (
  switchboard: Pick<Switchboard, 'client'>,
): Omit<AdminContext, 'services' | 'bootstrap'> => ({
  auth: switchboard.client('admin', AuthService),
  billing: switchboard.client('admin', BillingService),
  jobs: switchboard.client('admin', JobsService),
  keys: switchboard.client('admin', KeysService),
  models: switchboard.client('admin', ModelsService),
  usage: switchboard.client('admin', UsageService),
  asOperator: {
    contextValues: callerContext(create(CallerSchema, { kind: CallerKind.SERVICE, service: 'admin', operator: true })),
  },
});
