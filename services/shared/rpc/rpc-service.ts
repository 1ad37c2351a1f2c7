import type { DescService } from '@bufbuild/protobuf';
import type { ServiceImpl } from '@connectrpc/connect';

/** A service and its implementation, for createRpcServer and createLocalTransport alike. */
export type RpcService = {
  service: DescService;
  /** Missing methods answer UNIMPLEMENTED. */
  implementation: Partial<ServiceImpl<DescService>>;
  /** The services that may call this one over the network; `anyone` allows calls without a token. */
  callers: readonly string[] | 'anyone';
  /** Whether calls over the local transport are validated, as those over the network always are. */
  validateLocally: boolean;
  /** The largest request message accepted from the network, in bytes. */
  readMaxBytes: number;
};

/** Pairs a service with its implementation. By default nobody may call it over the network. */
export const rpcService = <Service extends DescService>(
  service: Service,
  implementation: Partial<ServiceImpl<Service>>,
  options: Partial<Pick<RpcService, 'callers' | 'validateLocally' | 'readMaxBytes'>> = {},
): RpcService => ({
  service,
  implementation: implementation as RpcService['implementation'],
  callers: options.callers ?? [],
  validateLocally: options.validateLocally ?? true,
  readMaxBytes: options.readMaxBytes ?? defaultReadMaxBytes,
});

const defaultReadMaxBytes = 4 * 1024 * 1024;
