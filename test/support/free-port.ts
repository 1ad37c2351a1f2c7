import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { networkInterfaces } from 'node:os';

/** From here on Linux takes ports for outgoing connections and for servers that ask for any port. */
const ephemeralFrom = 32_768;

/** A port on which nothing listens, and which nobody is given who does not ask for it. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(16_384, ephemeralFrom);
    const server = createServer().listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') continue;
      throw error;
    }
    server.close();
    await once(server, 'close');
    return port;
  }
}

/** Whether this machine can reach itself by IPv6. */
export const hasIpv6: boolean = Object.values(networkInterfaces()).some((all) =>
  all?.some(({ address }) => address === '::1'),
);
