import { create } from '@bufbuild/protobuf';
import { expect } from 'vitest';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { CallerKind, CallerSchema, callerContext } from '#shared/rpc/caller.ts';
import { commands } from '../../services/cmd/admin/commands.ts';
import { runCommand } from '../../services/cmd/admin/run-command.ts';
import type { TestGateway } from './gateway.ts';

/** The operators' command line of a test gateway, without a process of its own for each command. */
export function adminOf(gateway: () => TestGateway) {
  const admin = (...argv: string[]) =>
    runCommand(commands, argv, () => {
      const { switchboard } = gateway().gateway;
      const operator = create(CallerSchema, { kind: CallerKind.SERVICE, service: 'admin', operator: true });
      return {
        auth: switchboard.client('admin', AuthService),
        billing: switchboard.client('admin', BillingService),
        jobs: switchboard.client('admin', JobsService),
        keys: switchboard.client('admin', KeysService),
        models: switchboard.client('admin', ModelsService),
        services: [],
        asOperator: { contextValues: callerContext(operator) },
        bootstrap: {} as never,
      };
    });
  /** What a command that succeeds prints with `--json`. */
  const json = async (...argv: string[]) => {
    const { exitCode, stdout, stderr } = await admin(...argv, '--json');
    expect([exitCode, stderr]).toEqual([0, '']);
    return JSON.parse(stdout);
  };
  return { admin, json };
}
