import { Writable } from 'node:stream';
import { create, type DescService } from '@bufbuild/protobuf';
import type { CallOptions, Client, ServiceImpl, Transport } from '@connectrpc/connect';
import { afterEach, beforeEach, expect, type MockInstance, vi } from 'vitest';
import { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import { InferenceService } from '#gen/modelgateway/models/v1/inference_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { systemClock } from '#shared/clock.ts';
import type { GatewayError } from '#shared/errors.ts';
import { createLogger } from '#shared/logger.ts';
import { createCallReport } from '#shared/rpc/call-report.ts';
import { type Caller, CallerKind, CallerSchema, callerContext, Role } from '#shared/rpc/caller.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createRpcClientTransport } from '#shared/rpc/client-transport.ts';
import { createLocalTransport } from '#shared/rpc/local-transport.ts';
import { type RpcService, rpcService } from '#shared/rpc/rpc-service.ts';
import { createRpcServer, type RpcServer } from '#shared/rpc/server.ts';
import { createServiceTokens, type ServiceTokens } from '#shared/rpc/service-token.ts';
import { validateMessage } from '#shared/rpc/validation.ts';
import { selfSignedCertificate } from './certificate.ts';

/** The ways in which a call can reach a service. */
export const carriers = ['local', 'h2c', 'tls'] as const;
export type Carrier = (typeof carriers)[number];

export const testServiceSecret = 'a service secret for tests, 32 bytes or more';

/** Tokens as the named service creates and checks them. */
export const testTokens = (issuer: string, options: { secrets?: string[]; clock?: Clock } = {}): ServiceTokens =>
  createServiceTokens({ issuer, secrets: options.secrets ?? [testServiceSecret], clock: options.clock ?? systemClock });

/** Collects log lines, parsed. */
export function logCollector(level = 'debug') {
  const lines: Record<string, unknown>[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      for (const line of String(chunk).trim().split('\n')) lines.push(JSON.parse(line));
      done();
    },
  });
  return { lines, logger: createLogger({ level, name: 'test', destination }) };
}

/** A running server for tests; `await using` closes everything. */
type TestRpcServer = AsyncDisposable & {
  url: string;
  server: RpcServer;
  lines: Record<string, unknown>[];
  /** The certificate authority to trust, if it uses TLS. */
  ca: string | undefined;
};

/** Serves services on a loopback port: a free one unless one is given. */
export async function serveRpc(
  services: readonly RpcService[],
  options: { tls?: boolean; clock?: Clock; drainMs?: number; host?: string; port?: number } = {},
): Promise<TestRpcServer> {
  const { lines, logger } = logCollector();
  const clock = options.clock ?? systemClock;
  const certificate = options.tls ? selfSignedCertificate() : undefined;
  const server = createRpcServer({
    services,
    tokens: testTokens('test-server', { clock }),
    report: createCallReport({ logger, clock: systemClock }),
    validate: validateMessage,
    tls: certificate && { key: certificate.key, cert: certificate.cert },
    drainMs: options.drainMs ?? 200,
  });
  const url = await server.listen({ host: options.host ?? '127.0.0.1', port: options.port ?? 0 });
  return { url, server, lines, ca: certificate?.ca, [Symbol.asyncDispose]: () => server.close() };
}

/** The same services over one of the carriers, with the log lines of the server side. */
export type Carried = AsyncDisposable & {
  transport: Transport;
  client<Service extends DescService>(service: Service): Client<Service>;
  lines: Record<string, unknown>[];
};

/** Calls services as the service named `edge` would: in this process, or through a port. */
export async function carry(carrier: Carrier, services: readonly RpcService[]): Promise<Carried> {
  if (carrier === 'local') {
    const { lines, logger } = logCollector();
    const report = createCallReport({ logger, clock: systemClock });
    const transport = createLocalTransport(services, { report, validate: validateMessage });
    return carried(transport, lines, async () => {});
  }
  const running = await serveRpc(services, { tls: carrier === 'tls' });
  const { url, ca, lines } = running;
  const transport = createRpcClientTransport({ url, tokens: testTokens('edge'), tls: ca ? { ca } : undefined });
  return carried(transport, lines, async () => {
    transport.close();
    await running[Symbol.asyncDispose]();
  });
}

const carried = (transport: Transport, lines: Carried['lines'], close: () => Promise<void>): Carried => ({
  transport,
  client: (service) => createRpcClient(service, transport),
  lines,
  [Symbol.asyncDispose]: close,
});

/** A transport to a port as the edge opens it; `using` closes it. */
export function transportTo(url: string): Transport & Disposable {
  const transport = createRpcClientTransport({ url, tokens: testTokens('edge') });
  return Object.assign(transport, { [Symbol.dispose]: () => transport.close() });
}

/** The caller in the tests: an admin's key. */
export const caller: Caller = create(CallerSchema, {
  kind: CallerKind.API_KEY,
  tenantId: '0197f2a4-0000-7000-8000-00000000000a',
  userId: '0197f2a4-0000-7000-8000-00000000000b',
  apiKeyId: '0197f2a4-0000-7000-8000-00000000000c',
  role: Role.ADMIN,
  ip: '192.0.2.1',
  requestId: 'req_1',
});

/** Call options on behalf of that caller. */
export const asCaller = (): CallOptions => ({ contextValues: callerContext(caller) });

/** A valid id for GetKey, and a valid request for Invoke. */
export const keyId = '0197f2a4-0000-7000-8000-000000000001';
export const invocation = { operation: Operation.CHAT_COMPLETIONS, body: new Uint8Array([1]) };

/** Two services with the given handlers, which the edge may call; anything without a handler is unimplemented. */
export const testServices = (handlers: {
  keys?: Partial<ServiceImpl<typeof KeysService>>;
  inference?: Partial<ServiceImpl<typeof InferenceService>>;
}): RpcService[] => [
  rpcService(KeysService, handlers.keys ?? {}, { callers: ['edge'] }),
  rpcService(InferenceService, handlers.inference ?? {}, { callers: ['edge'] }),
];

/** For what happens in its own time on a busy machine. */
export const patience = { timeout: 30_000 };

/** Resolves once the signal fires, at once if it already has. */
export const aborted = (signal: AbortSignal): Promise<void> =>
  new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve());
  });

/** The error with which a call failed; fails if it did not. */
export async function failureOf(call: Promise<unknown>): Promise<GatewayError> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toHaveProperty('name', 'GatewayError');
  return error as GatewayError;
}

/** All messages of a stream, once it has ended. */
export async function collect<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const messages: T[] = [];
  for await (const message of stream) messages.push(message);
  return messages;
}

/** Fails each test of the calling file that writes to console.error, where connect-fastify reports what our interceptors missed. */
export function expectSilentConsole(): void {
  let consoleError: MockInstance;
  beforeEach(() => {
    consoleError = vi.spyOn(console, 'error');
  });
  afterEach(() => {
    expect(consoleError).not.toHaveBeenCalled();
    consoleError.mockRestore();
  });
}
