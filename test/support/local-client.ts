import type { DescService } from '@bufbuild/protobuf';
import type { Client, ServiceImpl } from '@connectrpc/connect';
import { systemClock } from '#shared/clock.ts';
import type { Logger } from '#shared/logger.ts';
import { createCallReport } from '#shared/rpc/call-report.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createLocalTransport } from '#shared/rpc/local-transport.ts';
import { rpcService } from '#shared/rpc/rpc-service.ts';
import { validateMessage } from '#shared/rpc/validation.ts';

/** A client of a service in this process, called as the parts of one gateway call each other. */
export const localClient = <Service extends DescService>(
  service: Service,
  implementation: Partial<ServiceImpl<Service>>,
  logger: Logger,
): Client<Service> =>
  createRpcClient(
    service,
    createLocalTransport([rpcService(service, implementation)], {
      report: createCallReport({ logger, clock: systemClock }),
      validate: validateMessage,
    }),
  );
