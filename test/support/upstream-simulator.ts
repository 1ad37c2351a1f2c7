import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { type Answer, errorAnswer } from './simulator/answer.ts';
import { type Behaviour, type BehaviourName, behaviourOf, namedBehaviours } from './simulator/behaviour.ts';
import {
  audioTextAnswer,
  embeddingsAnswer,
  imagesAnswer,
  modelsAnswer,
  type SimulatedModel,
  speechAnswer,
} from './simulator/other-answers.ts';
import { type FormPart, operationAt, parseForm, parseJson, promptTokensOf, readBody } from './simulator/request.ts';
import { respond } from './simulator/respond.ts';
import { textAnswer } from './simulator/text-generation.ts';
import { createTruthLog, type TruthEntry, type TruthLog } from './simulator/truth-log.ts';

export type { Behaviour, BehaviourName, TruthEntry };

type SimulatorOptions = {
  /** What GET /models lists. */
  models?: SimulatedModel[];
  /** 0 for a free one. */
  port?: number;
};

export type UpstreamSimulator = AsyncDisposable & {
  /** Including /v1, as UPSTREAM_BASE_URL wants it. */
  url: string;
  port: number;
  /** What really happened, in order of arrival; GET /models included. */
  readonly truth: readonly TruthEntry[];
  /** Only the inference requests. */
  readonly requests: TruthEntry[];
  waitFor: TruthLog['waitFor'];
  /** The next request without a behaviour of its own is answered like this; several are queued. */
  next(behaviour: Behaviour | BehaviourName, times?: number): void;
  /** All requests without a behaviour of their own are answered like this while the queue is empty. */
  otherwise(behaviour: Behaviour | BehaviourName | ((entry: TruthEntry) => Behaviour)): void;
  /** The number of open connections. */
  readonly connections: number;
  /** Clears the truth, the queue and `otherwise`. */
  reset(): void;
  close(): Promise<void>;
};

/**
 * A real HTTP server that speaks OpenAI's API and keeps a log of what truly happened: what it was sent, what it generated, who ended it.
 * How a request is answered is decided by, first match wins: `metadata.sim` in the request (a name or a behaviour as JSON), a model that
 * ends in `@name`, `next`, `otherwise`.
 */
export async function startUpstreamSimulator(options: SimulatorOptions = {}): Promise<UpstreamSimulator> {
  const { models = ['sim-chat', 'sim-embedding', 'sim-image', 'sim-transcribe', 'sim-speech'] } = options;
  const log = createTruthLog();
  const line: Behaviour[] = [];
  let otherwise: (entry: TruthEntry) => Behaviour = () => namedBehaviours.plain;
  let received = 0;

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const entry = newEntry(request, ++received);
    // Logged before its body has arrived, so that a test can wait for a request whose body never ends.
    log.add(entry);
    const body = await readBody(request);
    const contentType = request.headers['content-type'];
    const json = contentType?.startsWith('application/json') === true ? parseJson(body) : null;
    fill(entry, json, parseForm(contentType, body), body);
    entry.behaviour = marked(entry) ?? (entry.operation === 'models' ? {} : (line.shift() ?? otherwise(entry)));
    if (entry.behaviour.whole === true) entry.stream = false;
    entry.promptTokens = entry.behaviour.promptTokens ?? promptTokensOf(json);
    if (entry.behaviour.dialect === 'ollama') entry.responseId = 'chatcmpl-123';
    const answer = answerTo(entry, models);
    log.changed();
    await respond(response, entry, answer, log.changed);
  }

  const server = createServer({ keepAliveTimeout: 60_000, noDelay: true }, (request, response) => {
    serve(request, response).catch((error: unknown) => {
      // A mistake in a test, such as an unknown behaviour, must be seen, not waited for.
      if (!response.headersSent) response.writeHead(599, { 'content-type': 'text/plain' });
      response.end(String(error));
    });
  });
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;

  const close = async () => {
    if (!server.listening) return;
    server.close();
    for (const socket of sockets) socket.destroy();
    await once(server, 'close');
  };
  return {
    url: `http://127.0.0.1:${port}/v1`,
    port,
    get truth() {
      return log.entries;
    },
    get requests() {
      return log.entries.filter(({ operation }) => operation !== 'models');
    },
    waitFor: log.waitFor,
    next(behaviour, times = 1) {
      for (let time = 0; time < times; time += 1) line.push(behaviourOf(behaviour));
    },
    otherwise(behaviour) {
      otherwise = typeof behaviour === 'function' ? behaviour : () => behaviourOf(behaviour);
    },
    get connections() {
      return sockets.size;
    },
    reset() {
      log.clear();
      line.length = 0;
      otherwise = () => namedBehaviours.plain;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function newEntry(request: IncomingMessage, number: number): TruthEntry {
  const path = request.url ?? '';
  return {
    number,
    operation: operationAt(path),
    method: request.method ?? '',
    path,
    headers: request.headers,
    body: Buffer.alloc(0),
    json: null,
    form: [],
    model: '',
    stream: false,
    behaviour: {},
    responseId: `chatcmpl-sim${number}`,
    status: null,
    promptTokens: 0,
    generatedTokens: 0,
    chunks: 0,
    isWhole: false,
    text: '',
    reportedUsage: null,
    outcome: 'running',
    receivedAtMs: performance.now(),
    endedAtMs: null,
  };
}

function fill(entry: TruthEntry, json: TruthEntry['json'], form: FormPart[], body: Buffer): void {
  const field = (name: string) => json?.[name] ?? form.find((part) => part.name === name)?.bytes.toString('utf8');
  entry.json = json;
  entry.form = form;
  entry.body = body;
  entry.model = String(field('model') ?? '');
  // As FastAPI reads it.
  entry.stream = /^(true|1|yes|on)$/i.test(String(field('stream')));
}

/** The behaviour that the request itself asks for. */
function marked({ json, model }: TruthEntry): Behaviour | undefined {
  const marker = (json?.metadata as { sim?: Behaviour | string } | null | undefined)?.sim;
  if (marker !== undefined) return behaviourOf(marker);
  const name = /@([a-z0-9.-]+)$/.exec(model)?.[1];
  return name === undefined ? undefined : behaviourOf(name);
}

function answerTo(entry: TruthEntry, models: readonly SimulatedModel[]): Answer {
  const { instead } = entry.behaviour;
  if (instead !== undefined) {
    const isText = typeof instead.body === 'string';
    return {
      status: instead.status,
      contentType:
        instead.contentType === undefined ? (isText ? 'text/plain' : 'application/json') : instead.contentType,
      headers: instead.headers,
      body: { bytes: isText ? (instead.body as string) : JSON.stringify(instead.body ?? {}), tokens: 0 },
    };
  }
  const isGet = entry.method === 'GET';
  switch (entry.operation) {
    case 'models':
      return isGet ? modelsAnswer(models) : errorAnswer(405, 'Method not allowed');
    case 'unknown':
      return errorAnswer(404, `Unknown request URL: ${entry.method} ${entry.path}`);
    default:
      if (entry.method !== 'POST') return errorAnswer(405, 'Method not allowed');
      if (entry.json === null && entry.form.length === 0) return errorAnswer(400, 'The body cannot be parsed');
  }
  switch (entry.operation) {
    case 'chat':
    case 'completions':
      return textAnswer(entry);
    case 'embeddings':
      return embeddingsAnswer(entry);
    case 'images':
      return imagesAnswer(entry);
    case 'transcriptions':
    case 'translations':
      return audioTextAnswer(entry);
    case 'speech':
      return speechAnswer(entry);
    default:
      return entry.operation satisfies never;
  }
}
