import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import { systemClock } from '#shared/clock.ts';
import { startEmbeddedPostgres } from '#shared/db/embedded.ts';
import { migrateAll } from '#shared/db/migrate.ts';
import { uuidv7 } from '#shared/ids.ts';
import { Role } from '#shared/rpc/caller.ts';
import { createRpcClient } from '#shared/rpc/client.ts';
import { createRpcClientTransport } from '#shared/rpc/client-transport.ts';
import { createSessionCredentials } from '../../edge/snapshots/sessions.ts';
import { migrations } from '../../services/auth/db/migrations/index.ts';
import { anonymous, ownerEmail, ownerPassword, publicUrl, session, startTestAuth } from '../support/auth.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { logCollector, serveRpc, testTokens } from '../support/rpc-carriers.ts';
import { waitFor } from '../support/wait-for.ts';

test('a session that ends after a crash of Postgres is refused at an edge that is cut off, once the answer is given', async () => {
  const { logger } = logCollector();
  await using closing = new AsyncDisposableStack();
  const directory = mkdtempSync(join(tmpdir(), 'sessions-after-a-crash-'));
  closing.defer(() => rmSync(directory, { recursive: true, force: true }));
  // A Postgres of its own, to be killed; with fsync, as in production.
  const postgres = await startEmbeddedPostgres({ dataDir: directory, logger });
  closing.defer(() => postgres.stop());
  await migrateAll(postgres.url, [{ service: 'auth', migrations }], logger);
  const database = { url: postgres.url, name: 'postgres', drop: async () => {}, [Symbol.asyncDispose]: async () => {} };
  const { auth, rpc, owner } = closing.use(await startTestAuth({ database }));
  const server = closing.use(await serveRpc([rpc]));
  const target = { host: '127.0.0.1', port: Number(new URL(server.url).port) };
  const proxy = closing.use(await startFaultProxy({ target }));
  const transport = createRpcClientTransport({
    url: `http://${proxy.host}:${proxy.port}`,
    tokens: testTokens('edge'),
  });
  closing.defer(() => transport.close());
  const edge = createSessionCredentials({
    auth: createRpcClient(AuthService, transport),
    edgeId: uuidv7(),
    clock: systemClock,
    logger,
    publicUrl,
  });
  closing.defer(() => edge.close());
  await waitFor(() => edge.isLive, { description: 'a live feed' });
  const { tokens } = await auth.login({ email: ownerEmail, password: ownerPassword }, anonymous());
  const { sessionId } = await edge.authenticate(tokens!.accessToken);
  const caller = session({ ...owner, role: Role.OWNER, sessionId });

  const before = postgres.pid();
  await proxy.set({ kind: 'blackhole' });
  process.kill(before, 'SIGKILL');
  const isAnswered = () =>
    auth.logout({}, caller).then(
      () => true,
      () => false,
    );
  await waitFor(isAnswered, { description: 'an answer to the logout', timeoutMs: 30_000 });
  // It knows nothing of the logout, so it must not decide by what it knows.
  expect(edge.isLive).toBe(false);
  await proxy.set({ kind: 'pass' });
  proxy.resetAll();
});
