import { once } from 'node:events';
import { connect, createServer, type NetConnectOpts, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from './free-port.ts';

/** What happens to the bytes. `direction` limits a fault to the bytes sent towards one side; without it, it applies to both. */
type Fault =
  | { kind: 'pass' }
  /** Each piece arrives this much later; the throughput is the same. */
  | { kind: 'latency'; ms: number; direction?: Direction }
  | { kind: 'throttle'; bytesPerSecond: number; direction?: Direction }
  /** No byte passes until the fault is lifted; then all do. A process that was paused looks like this. */
  | { kind: 'freeze'; direction?: Direction }
  /** Bytes vanish, but connections stay. A connection that lost bytes is reset when the fault is lifted. */
  | { kind: 'blackhole'; direction?: Direction }
  /** New connections are refused, as by a host without a listener; existing ones go on. */
  | { kind: 'refuse' }
  /** All connections, existing and new, end with RST. */
  | { kind: 'reset' }
  /** A connection on which these bytes are sent at once ends with RST before they arrive; others go on. */
  | { kind: 'deny'; text: string; direction?: Direction }
  /** The client gets FIN; what it sends is still passed on. */
  | { kind: 'half-close' }
  /** Each connection passes this many more bytes and is then reset. */
  | { kind: 'cut'; afterBytes: number; direction?: Direction };

type Direction = 'to-client' | 'to-target';

type Target = { host: string; port: number } | { path: string };

type FaultProxyOptions = {
  target: Target;
  /** Where to listen, a Unix socket; without it, a free port of 127.0.0.1. */
  listen?: { path: string };
};

export type FaultProxy = AsyncDisposable & {
  host: string;
  /** 0 for a Unix socket. */
  port: number;
  /** Sets the fault from now on, for existing and new connections. */
  set(fault: Fault): Promise<void>;
  /** The number of open connections. */
  readonly connections: number;
  /** The number of connections accepted so far. */
  readonly accepted: number;
  /** The number of bytes that a black hole has swallowed so far. */
  readonly lostBytes: number;
  /** Ends all existing connections with RST. */
  resetAll(): void;
  /** Leads new connections to another target, like an address that moves in a failover; existing ones go on. */
  moveTo(target: Target): void;
  close(): Promise<void>;
};

/** Starts a proxy that can misbehave on command in front of a TCP port or a Unix socket (Postgres, an upstream, a service). */
export async function startFaultProxy({ target: firstTarget, listen }: FaultProxyOptions): Promise<FaultProxy> {
  let target = firstTarget;
  let fault: Fault = { kind: 'pass' };
  let changed = Promise.withResolvers<void>();
  const links = new Set<Link>();
  let accepted = 0;
  let lostBytes = 0;

  const view: FaultView = {
    current: () => fault,
    changed: () => changed.promise,
    lost: (bytes) => {
      lostBytes += bytes;
    },
  };
  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    accepted += 1;
    if (fault.kind === 'reset') {
      client.on('error', () => {});
      resetSocket(client);
      return;
    }
    const link = new Link(client, connect({ ...target, allowHalfOpen: true, noDelay: true } as NetConnectOpts), view);
    links.add(link);
    link.onClosed(() => links.delete(link));
    link.faultSet(fault);
  });

  // Nobody else is given this port while connections are refused.
  const address = { host: '127.0.0.1', port: listen === undefined ? await freePort() : 0 };
  const open = async () => {
    server.listen(listen ?? address);
    await once(server, 'listening');
  };
  await open();

  const resetAll = () => {
    for (const link of links) link.reset();
  };
  const close = async () => {
    resetAll();
    if (!server.listening) return;
    server.close();
    await once(server, 'close');
  };

  return {
    ...address,
    get connections() {
      return links.size;
    },
    get accepted() {
      return accepted;
    },
    get lostBytes() {
      return lostBytes;
    },
    async set(next) {
      if (fault.kind === 'refuse' && next.kind !== 'refuse') await open();
      // Removes the listener at once; `close` only completes when all connections have ended.
      if (fault.kind !== 'refuse' && next.kind === 'refuse') server.close();
      fault = next;
      for (const link of links) link.faultSet(next);
      changed.resolve();
      changed = Promise.withResolvers();
    },
    resetAll,
    moveTo(next) {
      target = next;
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

type FaultView = { current(): Fault; changed(): Promise<void>; lost(bytes: number): void };

/** A client's connection and its counterpart to the target. */
class Link {
  readonly #client: Socket;
  readonly #target: Socket;
  readonly #lanes: Lane[];
  #lostBytes = false;

  constructor(client: Socket, target: Socket, view: FaultView) {
    this.#client = client;
    this.#target = target;
    const reset = () => this.reset();
    client.on('error', reset);
    target.on('error', reset);
    const lose = () => {
      this.#lostBytes = true;
    };
    this.#lanes = [
      new Lane(client, target, 'to-target', view, { reset, lose }),
      new Lane(target, client, 'to-client', view, { reset, lose }),
    ];
  }

  onClosed(callback: () => void): void {
    let open = 2;
    const closed = () => {
      open -= 1;
      if (open === 0) callback();
    };
    this.#client.on('close', closed);
    this.#target.on('close', closed);
  }

  faultSet(fault: Fault): void {
    for (const lane of this.#lanes) lane.bytesLeft = appliesTo(fault, lane.direction, 'cut')?.afterBytes ?? null;
    if (fault.kind === 'reset' || (this.#lostBytes && fault.kind !== 'blackhole')) this.reset();
    if (fault.kind === 'half-close') this.#client.end();
  }

  reset(): void {
    resetSocket(this.#client);
    resetSocket(this.#target);
  }
}

/** The bytes of one connection in one direction, in order. */
class Lane {
  readonly direction: Direction;
  /** How many bytes a `cut` still lets through. */
  bytesLeft: number | null = null;
  readonly #to: Socket;
  readonly #view: FaultView;
  readonly #link: { reset(): void; lose(): void };

  constructor(from: Socket, to: Socket, direction: Direction, view: FaultView, link: { reset(): void; lose(): void }) {
    this.direction = direction;
    this.#to = to;
    this.#view = view;
    this.#link = link;
    let tail = Promise.resolve();
    let waiting = 0;
    from.on('data', (bytes: Buffer) => {
      const arrivedMs = performance.now();
      waiting += 1;
      if (waiting > 64) from.pause();
      tail = tail.then(async () => {
        await this.#pass(bytes, arrivedMs);
        waiting -= 1;
        if (from.isPaused() && waiting < 16) from.resume();
      });
    });
    from.on('end', () => {
      tail = tail.then(async () => {
        await this.#untilThawed();
        to.end();
      });
    });
  }

  async #pass(bytes: Buffer, arrivedMs: number): Promise<void> {
    await this.#untilThawed();
    const fault = this.#view.current();
    const latency = appliesTo(fault, this.direction, 'latency');
    if (latency !== undefined) await delay(Math.max(0, arrivedMs + latency.ms - performance.now()));
    if (appliesTo(fault, this.direction, 'blackhole') !== undefined) {
      this.#link.lose();
      this.#view.lost(bytes.length);
      return;
    }
    const denied = appliesTo(fault, this.direction, 'deny');
    if (denied !== undefined && bytes.includes(denied.text)) return this.#link.reset();
    const throttle = appliesTo(fault, this.direction, 'throttle');
    if (throttle !== undefined) return this.#trickle(bytes, throttle.bytesPerSecond);
    if (this.bytesLeft !== null && bytes.length >= this.bytesLeft) {
      // The reset must not overtake the bytes before it.
      this.#to.write(bytes.subarray(0, this.bytesLeft), () => setImmediate(this.#link.reset));
      this.bytesLeft = 0;
      return;
    }
    if (this.bytesLeft !== null) this.bytesLeft -= bytes.length;
    await this.#write(bytes);
  }

  async #trickle(bytes: Buffer, bytesPerSecond: number): Promise<void> {
    // A hundred slices a second, or single bytes.
    const slice = bytes.subarray(0, Math.max(1, Math.ceil(bytesPerSecond / 100)));
    await Promise.race([delay((slice.length / bytesPerSecond) * 1000), this.#view.changed()]);
    await this.#write(slice);
    const rest = bytes.subarray(slice.length);
    // Under whatever fault is set by then.
    if (rest.length > 0) await this.#pass(rest, performance.now());
  }

  async #untilThawed(): Promise<void> {
    while (appliesTo(this.#view.current(), this.direction, 'freeze') !== undefined) await this.#view.changed();
  }

  async #write(bytes: Buffer): Promise<void> {
    if (!this.#to.writable || this.#to.write(bytes)) return;
    await Promise.race([once(this.#to, 'drain'), once(this.#to, 'close')]).catch(() => {});
  }
}

/** The fault, if it is of this kind and concerns this direction. */
function appliesTo<Kind extends Fault['kind']>(
  fault: Fault,
  direction: Direction,
  kind: Kind,
): Extract<Fault, { kind: Kind }> | undefined {
  if (fault.kind !== kind) return undefined;
  if ('direction' in fault && fault.direction !== undefined && fault.direction !== direction) return undefined;
  return fault as Extract<Fault, { kind: Kind }>;
}

function resetSocket(socket: Socket): void {
  if (socket.destroyed) return;
  // A Unix socket has no RST, and a connecting one has none to send.
  if (socket.remotePort === undefined) socket.destroy();
  else socket.resetAndDestroy();
}
