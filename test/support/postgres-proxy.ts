import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DatabaseUrl } from '#shared/db/connection.ts';
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts';

/** A test's database behind a proxy that can misbehave: the same URL with another server. */
export async function startPostgresProxy(url: DatabaseUrl): Promise<FaultProxy & { url: DatabaseUrl }> {
  const behind = new URL(url);
  const folder = behind.searchParams.get('host');
  if (folder === null) {
    const target = { host: behind.hostname, port: Number(behind.port || 5432) };
    const proxy = await startFaultProxy({ target });
    behind.hostname = proxy.host;
    behind.port = String(proxy.port);
    return Object.assign(proxy, { url: behind.href });
  }
  // pg, too, finds a server's socket in a folder by this name.
  const socket = `.s.PGSQL.${behind.port || behind.searchParams.get('port') || 5432}`;
  const ownFolder = mkdtempSync(join(tmpdir(), 'pg-'));
  const proxy = await startFaultProxy({
    target: { path: join(folder, socket) },
    listen: { path: join(ownFolder, socket) },
  });
  behind.searchParams.set('host', ownFolder);
  const closeProxy = proxy.close;
  const close = async (): Promise<void> => {
    await closeProxy();
    rmSync(ownFolder, { recursive: true, force: true });
  };
  return Object.assign(proxy, { url: behind.href, close, [Symbol.asyncDispose]: close });
}
