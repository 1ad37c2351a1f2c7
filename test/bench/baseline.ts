import fastify from 'fastify';
import { Pool } from 'undici';

// The least that a gateway on Fastify can do: pass bytes between a client and a pooled upstream, without any duty.

const pool = new Pool(process.argv[2]!, { connections: 256 });
const app = fastify({ bodyLimit: 64 * 1024 * 1024 });
app.removeAllContentTypeParsers();
app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
app.post('/v1/chat/completions', (request, reply) => {
  reply.hijack();
  const { raw } = reply;
  pool.dispatch(
    {
      method: 'POST',
      path: '/v1/chat/completions',
      headers: ['content-type', 'application/json'],
      body: request.body as Buffer,
    },
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
await app.listen({ port: 0, host: '127.0.0.1' });
process.stdout.write(`port ${(app.server.address() as { port: number }).port}\n`);
