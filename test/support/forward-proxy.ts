import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';

/** A proxy that tunnels by CONNECT (RFC 9110 section 9.3.6). */
export type ForwardProxy = AsyncDisposable & {
  url: string;
  /** What it was asked for: `host:port`, and the credentials. */
  asked: { target: string; authorization: string | undefined }[];
  /** Instead of a tunnel, each request gets these bytes; an empty text is silence. */
  answer: string | undefined;
};

export async function startForwardProxy(): Promise<ForwardProxy> {
  const open = new Set<Duplex>();
  const proxy: ForwardProxy = {
    url: '',
    asked: [],
    answer: undefined,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
  const server = createServer().on('connect', ({ url, headers }, client: Duplex) => {
    proxy.asked.push({ target: url!, authorization: headers['proxy-authorization'] });
    open.add(client.on('error', () => {}));
    if (proxy.answer !== undefined) {
      client.write(proxy.answer);
      return;
    }
    const [host, port] = url!.split(':');
    const target = connect(Number(port), host, () => {
      client.write('HTTP/1.1 200 Connection established\r\nvia: 1.1 test\r\n\r\n');
      client.pipe(target).pipe(client);
    });
    open.add(target.on('error', () => client.destroy()));
    client.on('close', () => target.destroy());
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  proxy.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return proxy;
}
