import fastify from 'fastify';
import { Pool } from 'undici';

// The least that a gateway on Fastify and undici can do: pass bytes between a client and a pooled upstream, without any duties.

const [upstreamUrl, port] = process.argv.slice(2);
const pool = new Pool(upstreamUrl!, { connections: 256 });
const app = fastify({ bodyLimit: 64 * 1024 * 1024 });
app.removeAllContentTypeParsers();
app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
for (const path of ['/v1/chat/completions', '/v1/embeddings']) {
  app.post(path, (request, reply) => {
    reply.hijack();
    const { raw } = reply;
    pool.dispatch(
      { method: 'POST', path, headers: ['content-type', 'application/json'], body: request.body as Buffer },
      {
        onRequestStart: () => {},
        onResponseStart: (_controller, status, headers) => {
          const length = headers['content-length'];
          raw.writeHead(status, {
            'content-type': String(headers['content-type']),
            ...(length === undefined ? undefined : { 'content-length': String(length) }),
          });
        },
        onResponseData: (_controller, chunk) => {
          raw.write(chunk);
        },
        onResponseEnd: () => {
          raw.end();
        },
        onResponseError: () => {
          raw.destroy();
        },
      },
    );
  });
}
await app.listen({ port: Number(port), host: '127.0.0.1' });
