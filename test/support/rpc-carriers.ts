import { Writable } from 'node:stream';
import type { DescService } from '@bufbuild/protobuf';
import type { Client, Transport } from '@connectrpc/connect';
import type { Clock } from '#shared/clock.ts';
import { systemClock } from '#shared/clock.ts';
import { createLogger } from '#shared/logger.ts';
import { createCallReport } from '#shared/rpc/call-report.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createRpcClientTransport } from '#shared/rpc/client-transport.ts';
import { createLocalTransport } from '#shared/rpc/local-transport.ts';
import type { RpcService } from '#shared/rpc/rpc-service.ts';
import { createRpcServer, type RpcServer } from '#shared/rpc/server.ts';
import { createServiceTokens, type ServiceTokens } from '#shared/rpc/service-token.ts';
import { validateMessage } from '#shared/rpc/validation.ts';
import { selfSignedCertificate } from './certificate.ts';

/** The ways in which a call can reach a service. */
export const carriers = ['local', 'h2c', 'tls'] as const;
export type Carrier = (typeof carriers)[number];

const testServiceSecret = 'a service secret for tests, 32 bytes or more';

/** Tokens as the named service mints and checks them. */
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

/** A running server for tests; everything is closed with `await using`. */
export type TestRpcServer = AsyncDisposable & {
  url: string;
  server: RpcServer;
  lines: Record<string, unknown>[];
  /** The certificate authority to trust, when it speaks TLS. */
  ca: string | undefined;
};

/** Serves services on a free port of loopback. */
export async function serveRpc(
  services: readonly RpcService[],
  options: { tls?: boolean; clock?: Clock; drainMs?: number } = {},
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
  const url = await server.listen({ host: '127.0.0.1', port: 0 });
  return { url, server, lines, ca: certificate?.ca, [Symbol.asyncDispose]: () => server.close() };
}

/** The same services by one of the carriers, with the lines which their side logs. */
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
