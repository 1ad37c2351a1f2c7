import { Agent } from 'node:https';
import { isIP, type Socket } from 'node:net';
import { type ConnectionOptions, connect, TLSSocket } from 'node:tls';
import { buildConnector } from 'undici';

/** A proxy that connects to servers by CONNECT (RFC 9110 section 9.3.6). */
export type ForwardProxy = {
  /** With the scheme http. A name and password in it are sent as Basic credentials. */
  url: string;
  /** The servers that are reached without it, as NO_PROXY lists them. */
  except: string;
};

type ServerOptions = Omit<ConnectionOptions, 'host' | 'port' | 'servername'> & { host: string; port: number };

/** Called with the socket that can be written to, or with why there is none. Only the first call counts. */
export type OnOpen = (error: Error | null, socket?: Socket) => void;

/**
 * Begins a connection to a server over TLS and calls back once its handshake is over, with the socket that carries it, or with why there is
 * none. Until then the one that was returned stands for it: destroying it gives the connection up.
 */
export type OpenTls = (options: ServerOptions, onOpen: OnOpen) => Socket;

/** Connects directly, or through a proxy. HTTP/1.1 is the only protocol on offer. */
export function tlsOpener(proxy: ForwardProxy | undefined): OpenTls {
  const agent = proxy && new Agent({ proxyEnv: { HTTPS_PROXY: proxy.url, NO_PROXY: proxy.except } });
  return (given, onOpen) => {
    const servername = isIP(given.host) === 0 ? { servername: given.host } : {};
    const options = { ...given, ...servername, ALPNProtocols: ['http/1.1'] };
    const socket =
      agent === undefined
        ? connect(options)
        : (agent.createConnection(options, (error, tunnelled) => {
            if (error) socket.destroy();
            onOpen(error, tunnelled as Socket);
          }) as Socket);
    // Not by options, which the agent does not pass on to its proxy: small writes would wait for acknowledgements, and silent tunnels be
    // forgotten on their way.
    socket.once('connect', () => socket.setNoDelay(true).setKeepAlive(true, 60_000));
    // Of a server that it reaches without the proxy the agent does not call back. Only then does this socket speak TLS.
    if (socket instanceof TLSSocket) socket.once('secureConnect', () => onOpen(null, socket));
    socket.on('error', onOpen);
    // A handshake that fails within a tunnel ends that first, and only then says why.
    socket.on('close', () => setImmediate(onOpen, new Error('the connection was closed before it was open')));
    return socket;
  };
}

/** How undici connects, within so many milliseconds. */
export function undiciConnector(proxy: ForwardProxy | undefined, timeoutMs: number): buildConnector.connector {
  const direct = buildConnector({ timeout: timeoutMs });
  if (proxy === undefined) return direct;
  const openTls = tlsOpener(proxy);
  return (target, callback) => {
    if (target.protocol !== 'https:') return direct(target, callback);
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    const socket = openTls({ host: target.hostname, port: Number(target.port) || 443 }, (error, opened) => {
      if (error) reject(error);
      else resolve(opened!);
    });
    const timer = setTimeout(() => socket.destroy(new Error('no connection in time')), timeoutMs);
    promise
      .finally(() => clearTimeout(timer))
      .then(
        (opened) => callback(null, opened),
        (error) => callback(error, null),
      );
  };
}
