import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { type InferenceBench, startInferenceBench } from '../support/inference.ts';
import { append, sessionUpdate, talksOfTests, tone } from '../support/realtime-client.ts';
import { bothRefused, severalAddresses, useSeveralAddresses } from '../support/several-addresses.ts';
import { waitFor } from '../support/wait-for.ts';

/* What a realtime session says about the deployment that it was given. */

let bench: InferenceBench;
const logLines: string[] = [];

beforeAll(async () => {
  bench = await startInferenceBench({ logLines });
});
afterAll(async () => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.renew());

const talk = talksOfTests();

type Settings = { host?: string; dialect?: string; connect_timeout_ms?: number };

async function deploy(model: string, port: number, { host = '127.0.0.1', ...settings }: Settings = {}): Promise<void> {
  await bench.admin('POST', '/models', { name: model, operations: ['realtime_transcription'] });
  const base_url = `http://${host}:${port}/v1`;
  await bench.admin('POST', '/deployments', { model, base_url, dialect: 'openai', ...settings });
}

async function listening(server: Server): Promise<number> {
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return (server.address() as AddressInfo).port;
}

async function openWith(model: string) {
  const session = await talk(bench.gateway.url, { key: bench.key.key });
  session.say(sessionUpdate(model));
  return session;
}

/** Resolves once exactly one run of the model's deployment has ended, with this outcome. */
const ended = (model: string, outcome: string): Promise<unknown> =>
  waitFor(
    async () => {
      const text = await (await fetch(`${bench.gateway.url}/metrics`)).text();
      const runs = text.split('\n').filter((line) => line.startsWith('gateway_upstream_requests_total{'));
      const told = runs.filter((line) => line.includes(`model="${model}"`) && !line.endsWith(' 0'));
      if (told.length !== 1 || !told[0]!.endsWith(`outcome="${outcome}"} 1`)) throw new Error(told.join('\n'));
      return true;
    },
    { description: `a run that ${outcome}` },
  );

test('a session whose upstream has gone counts as a failed run', async () => {
  const server = createServer((_request, response) => response.end('{"data":[]}'));
  await deploy('gone', await listening(server));
  server.close();
  server.closeAllConnections();
  const session = await openWith('gone');
  expect((await session.event('error')).error.code).toBe('model_unavailable');
  await ended('gone', 'failed');
});

test('operators read why no address of an upstream took a session', async () => {
  using _ = useSeveralAddresses();
  const server = createServer((_request, response) => response.end('{"data":[]}'));
  await deploy('moved', await listening(server), { host: severalAddresses });
  server.close();
  server.closeAllConnections();
  const session = await openWith('moved');
  await session.event('error');
  await ended('moved', 'failed');
  const told = logLines.find((line) => line.includes('"moved"') && line.includes('a session could not be opened'));
  expect(told).toMatch(bothRefused);
});

test('a client that leaves while its upstream is asked for a sign of life says nothing about it', async () => {
  let isHanging = false;
  const hanging = new Set<string>();
  const server = createServer((request, response) => {
    if (!isHanging || request.headers.upgrade !== undefined) {
      response.end('{"data":[]}');
      return;
    }
    hanging.add('probe');
    response.on('close', () => hanging.delete('probe'));
  });
  await deploy('hanging', await listening(server));
  isHanging = true;
  const session = await openWith('hanging');
  await waitFor(() => hanging.size > 0, { description: 'the look for a sign of life' });
  session.socket.terminate();
  await waitFor(() => hanging.size === 0, { description: 'its end' });
  await ended('hanging', 'abandoned');
  // The regular looks for a sign of life, which hang as well, give up after five seconds.
  const told = logLines.filter((line) => line.includes('hanging') && line.includes('a deployment failed'));
  expect(told.filter((line) => !line.includes('aborted due to timeout'))).toEqual([]);
  server.closeAllConnections();
  server.close();
});

test('a client that leaves while its session is being opened ends that at once', async () => {
  const server = createServer((_request, response) => response.end('{"data":[]}'));
  const asked = once(server, 'upgrade') as Promise<[IncomingMessage]>;
  await deploy('opening', await listening(server), { connect_timeout_ms: 60_000 });
  const session = await openWith('opening');
  const [{ socket }] = await asked;
  const left = once(socket.resume(), 'end');
  session.socket.terminate();
  await left;
  await ended('opening', 'abandoned');
  socket.destroy();
  server.close();
});

test('a session to which its upstream said nothing says nothing about it', async () => {
  const server = createServer((_request, response) => response.end('{"data":[]}'));
  const sockets = new WebSocketServer({ server });
  await deploy('mute', await listening(server));
  const accepted = once(sockets, 'connection');
  const session = await openWith('mute');
  await accepted;
  session.socket.terminate();
  await ended('mute', 'abandoned');
  for (const client of sockets.clients) client.terminate();
  server.close();
});

test('a client that leaves before its speech is transcribed says nothing about the upstream', async () => {
  const asked = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    if (request.method === 'POST') asked.resolve();
    else response.end('{"data":[]}');
  });
  await deploy('scribe', await listening(server), { dialect: 'ollama' });
  const session = await openWith('scribe');
  session.say(append(tone(500)));
  session.say({ type: 'input_audio_buffer.commit' });
  await asked.promise;
  session.socket.terminate();
  await ended('scribe', 'abandoned');
  server.closeAllConnections();
  server.close();
});

test.each([
  ['lost', 'the connection broke off', (upstream: WebSocket) => upstream.terminate()],
  ['closed', 'closed with 1012 service restart', (upstream: WebSocket) => upstream.close(1012, 'service restart')],
])('operators read that the connection of a running session was %s', async (model, reason, end) => {
  const server = createServer((_request, response) => response.end('{"data":[]}'));
  const sockets = new WebSocketServer({ server });
  await deploy(model, await listening(server));
  const accepted = once(sockets, 'connection') as Promise<[WebSocket]>;
  const session = await openWith(model);
  const [upstream] = await accepted;
  await once(upstream, 'message');
  end(upstream);
  await session.event('error');
  await ended(model, 'failed');
  const told = logLines.find((line) => line.includes(`"${model}"`) && line.includes('a session was ended'));
  expect(told).toContain(`a session was ended: ${reason}"`);
  server.close();
});
