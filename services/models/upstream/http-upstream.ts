import { Pool } from 'undici';
import { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import { GrowingBuffer } from '#shared/growing-buffer.ts';
import { isObject } from '#shared/is-object.ts';
import { withoutMark } from '../bytes/byte-order-mark.ts';
import { countOr0 } from '../bytes/reported-usage.ts';
import { errorBytesMax, readErrorBody } from './error-body.ts';
import { idleMsDefault } from './http1/connection.ts';
import { Http1Pool, lifetimeMsDefault } from './http1/http1-pool.ts';
import { headBytesMax } from './http1/response-parser.ts';
import { type ForwardProxy, undiciConnector } from './tls.ts';
import type { ListedModel, Upstream } from './upstream.ts';
import { openWebSocket, socketUrl } from './web-socket.ts';

type HttpUpstreamOptions = {
  /** The base of the upstream's OpenAI-compatible API, e.g. `http://127.0.0.1:8000/v1`, without a trailing slash. */
  baseUrl: string;
  /** Sent as a bearer token; undefined: none is sent. */
  apiKey: string | undefined;
  connectTimeoutMs: number;
  /** On the way to servers that speak TLS. */
  proxy: ForwardProxy | undefined;
};

/** The longest model list that is read, in MiB; those of the largest hosts, with descriptions, have one or two. */
const listMibMax = 4;
/** The longest one that a probe reads for the sake of its connection, which is closed otherwise. */
const dumpedBytesMax = 128 * 1024;

/**
 * An OpenAI-compatible server over HTTP: calls go through our own client, the rest through undici. Redirects are not followed: a 3xx is an
 * answer like any other.
 */
export function createHttpUpstream(options: HttpUpstreamOptions): Upstream {
  const { apiKey, connectTimeoutMs, proxy } = options;
  const base = new URL(options.baseUrl);
  const basePath = base.pathname === '/' ? '' : base.pathname;
  const calls = new Http1Pool({ base, apiKey, connectTimeoutMs, proxy });
  // For everything but the calls themselves, which is rare and need not be fast. Of the deployments of a server few ever need it.
  let pool: Pool | undefined;
  let isClosed = false;
  const openPool = () =>
    new Pool(base.origin, {
      connect: undiciConnector(proxy, connectTimeoutMs),
      pipelining: 1,
      keepAliveTimeout: idleMsDefault,
      // Probes of a deployment that is down keep their connection busy.
      clientTtl: lifetimeMsDefault,
      maxHeaderSize: headBytesMax,
    });
  const redact = redactor(base, options);
  const authorization = apiKey === undefined ? [] : ['authorization', `Bearer ${apiKey}`];

  const getModels = (signal: AbortSignal) => {
    if (isClosed) throw new Error('the upstream is closed');
    pool ??= openPool();
    return pool.request({
      method: 'GET',
      path: `${basePath}/models`,
      headers: [...authorization, 'accept', 'application/json'],
      headersTimeout: 10_000,
      bodyTimeout: 10_000,
      signal,
    });
  };

  return {
    send: (request, handler) => calls.send(request, handler),

    openSocket: (path, handler) =>
      openWebSocket(
        { url: socketUrl(base, basePath + path), apiKey, connectTimeoutMs, proxy },
        { ...handler, onClose: (reason) => handler.onClose(redact(reason)) },
      ),

    async listModels(signal) {
      const { statusCode, body } = await getModels(signal);
      const answered = `GET ${basePath}/models answered`;
      if (statusCode !== 200) {
        const { message } = readErrorBody((await beginningOf(body, errorBytesMax)).toString(), redact);
        throw new Error(`${answered} ${statusCode}${message === '' ? '' : `: ${message}`}`);
      }
      const listBytesMax = listMibMax * 1024 * 1024;
      const list = await beginningOf(body, listBytesMax + 1);
      if (list.length > listBytesMax) throw new Error(`${answered} more than ${listMibMax} MiB`);
      return listedModels(JSON.parse(withoutMark(list).toString()));
    },

    async probe(signal) {
      const { statusCode, body } = await getModels(signal);
      await body.dump({ limit: dumpedBytesMax, signal });
      // Not every server lists its models; a 404 is a sign of life too. A server that refuses the credential here refuses all calls.
      if (statusCode >= 500 || statusCode === 401 || statusCode === 403) {
        throw new Error(`GET ${basePath}/models answered ${statusCode}`);
      }
    },

    redact,

    async close() {
      isClosed = true;
      calls.close();
      await pool?.destroy();
    },
  };
}

/** Shorter keys, such as `EMPTY` for a server that needs none, are words that any text may contain. */
const secretLengthMin = 8;

function redactor(base: URL, { baseUrl, apiKey = '' }: HttpUpstreamOptions): (text: string) => string {
  const keys = apiKey.length < secretLengthMin ? [] : [apiKey];
  // A host that is a plain word, as in a container network, reveals nothing and occurs in many sentences.
  const hosts = [base.host, base.hostname].filter((name) => !/^[a-z]+$/.test(name));
  return (text) => [...keys, baseUrl, ...hosts].reduce((rest, own) => rest.replaceAll(own, '[redacted]'), text);
}

/** The beginning of a body: its pieces up to the one that reaches this many bytes. */
async function beginningOf(body: AsyncIterable<Buffer>, bytesMin: number): Promise<Buffer> {
  const beginning = new GrowingBuffer();
  for await (const piece of body) {
    beginning.appendWhole(piece);
    if (beginning.length >= bytesMin) break;
  }
  return beginning.take();
}

/** What servers put into `owned_by`, whatever model they run. */
const dialectsByOwner = new Map<unknown, UpstreamDialect>([
  ['vllm', UpstreamDialect.VLLM],
  ['llamacpp', UpstreamDialect.LLAMA_CPP],
]);

/** How servers name a model's context window: vLLM and SGLang, OpenRouter and Together, Groq, Mistral. */
const contextWindowNames = ['max_model_len', 'context_length', 'context_window', 'max_context_length'];

/** Where servers say what a model is for: Together, Xinference, those that use Hugging Face's tasks, Infinity and llama.cpp. */
const kindNames = ['type', 'model_type', 'task', 'capabilities'];

/** The models in a model list; anything but an OpenAI model list is an error. */
function listedModels(list: unknown): ListedModel[] {
  const data = isObject(list) ? list.data : undefined;
  if (!Array.isArray(data)) throw new Error('the model list has no `data` array');
  return data.filter(isObject).flatMap((item) => {
    const { id, owned_by } = item;
    if (typeof id !== 'string' || id === '') return [];
    const contextWindow = contextWindowNames.map((name) => countOr0(item[name])).find((tokens) => tokens > 0);
    const kinds = kindNames.flatMap((name) => item[name]).filter((kind) => typeof kind === 'string');
    return [{ id, contextWindow, kinds, dialect: dialectsByOwner.get(owned_by) ?? UpstreamDialect.UNSPECIFIED }];
  });
}
