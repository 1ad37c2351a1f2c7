import { once } from 'node:events';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { freePort } from '../support/free-port.ts';
import { owner, testSecrets } from '../support/gateway.ts';
import { startGatewayProcess } from '../support/gateway-process.ts';
import { ownDataDir } from '../support/own-data-dir.ts';
import { createTestDatabase } from '../support/postgres.ts';
import { startProcess } from '../support/processes.ts';
import { append, openTalk, type RealtimeTalk, sessionUpdate, tone } from '../support/realtime-client.ts';
import { restCalls } from '../support/rest.ts';
import { waitFor } from '../support/wait-for.ts';

const dataDir = ownDataDir();

test('a realtime session at an edge that cannot reach Keys does nothing more once the deletion of its key is answered; the others go on', async () => {
  await using database = await createTestDatabase();
  const RPC_PORT = String(await freePort());
  const common = { ...testSecrets, DATABASE_URL: database.url, PUBLIC_URL: 'http://gateway.example' };
  const { child, url } = await startGatewayProcess({ ...common, DATA_DIR: join(dataDir.path, 'whole'), RPC_PORT });
  await using _whole = child;
  await using keys = await startFaultProxy({ target: { host: '127.0.0.1', port: Number(RPC_PORT) } });
  const others = ['auth', 'models', 'usage', 'billing', 'jobs'].map((name) => `${name}=http://127.0.0.1:${RPC_PORT}`);
  const RPC_URLS = [`keys=http://127.0.0.1:${keys.port}`, ...others].join(',');
  const env = { ...common, PORT: '0', LOG_LEVEL: 'silent', DATA_DIR: join(dataDir.path, 'edge'), RPC_URLS };
  await using edge = startProcess({ script: 'services/cmd/edge.ts', env });
  const far = `http://127.0.0.1:${await edge.waitForPort(/The edge listens on http:\/\/127\.0\.0\.1:(\d+)/)}`;
  const call = restCalls(url);
  const session = (await call('POST', '/api/v1/auth/login', '', owner)).access_token;
  const [ended, lasting] = await Promise.all(
    ['ended', 'lasting'].map(async (name) => {
      const { id, key } = await call('POST', '/api/v1/api-keys', session, { name });
      return { id, talk: await openTalk(far, { key }) };
    }),
  );
  const speak = async (talk: RealtimeTalk): Promise<void> => {
    talk.say(append(tone(300)));
    talk.say({ type: 'input_audio_buffer.commit' });
    talk.socket.ping();
    await once(talk.socket, 'pong');
  };
  const completed = 'conversation.item.input_audio_transcription.completed';
  const talks = [ended!.talk, lasting!.talk];
  for (const talk of talks) {
    talk.say(sessionUpdate('sandbox-transcribe', { turn_detection: null }));
    await speak(talk);
    await talk.event(completed);
  }

  await keys.set({ kind: 'blackhole' });
  await call('DELETE', `/api/v1/api-keys/${ended!.id}`, session);
  for (const talk of talks) await speak(talk);
  // The edge is at work, and would answer what it was told before this.
  const isAlive = async () => (await fetch(`${far}/healthz`)).ok;
  await waitFor(isAlive, { description: 'the edge' });
  await keys.set({ kind: 'pass' });
  keys.resetAll();

  expect((await ended!.talk.close()).code).toBe(1008);
  expect(ended!.talk.events.filter(({ type }) => type === completed)).toHaveLength(1);
  await lasting!.talk.event(completed, 2);
  lasting!.talk.socket.terminate();
});
