import { setTimeout as delay } from 'node:timers/promises';
import { type FailureLogger, RepeatedFailures } from '#shared/repeated-failures.ts';

/** How often a followed stream sends something, even if only that there is nothing new, in milliseconds. */
export const heartbeatMs = 500;

/** A stream that is silent for this many heartbeats is reopened. */
const silentTurnsMax = 4;

/** How long a stream must last, in milliseconds, for the failures before it to be over: one may break off after each first message. */
const soundAfterMs = silentTurnsMax * heartbeatMs;

const reopenMsMin = 20;
const reopenMsMax = 1_000;

export type Following = {
  /** Resolves with the first message that is more than a heartbeat, or when following ends. */
  first: Promise<void>;
  /** How long nothing has arrived, not even a heartbeat, in milliseconds. */
  silentMs(): number;
  /** Ends the stream, so that it is reopened. */
  reopen(): void;
  close(): Promise<void>;
};

/** Follows a service's endless stream, and reopens it whenever it ends, fails or falls silent. */
export function followStream<Message>(options: {
  /** Its name for the log, e.g. `the catalog feed`. */
  name: string;
  /** `signal` aborts when this stream has ended, for whatever reason. */
  open(signal: AbortSignal): AsyncIterable<Message>;
  /** Handles a message; returns true if it was more than a heartbeat. */
  onMessage(message: Message): boolean;
  logger: FailureLogger;
}): Following {
  const { name, open, onMessage, logger } = options;
  const failures = new RepeatedFailures(name, logger);
  const closing = new AbortController();
  const first = Promise.withResolvers<void>();
  let stream = new AbortController();
  let reopenMs = reopenMsMin;
  let heardMs = performance.now();

  async function followOnce(): Promise<void> {
    stream = new AbortController();
    const openedMs = performance.now();
    // Counted in turns of the event loop, so that a process that was itself suspended first reads what has arrived.
    let silentTurns = 0;
    const silence = setInterval(() => {
      silentTurns += 1;
      if (silentTurns >= silentTurnsMax) stream.abort();
    }, heartbeatMs);
    try {
      for await (const message of open(stream.signal)) {
        silentTurns = 0;
        heardMs = performance.now();
        if (onMessage(message)) first.resolve();
        if (heardMs - openedMs < soundAfterMs) continue;
        failures.succeeded();
        reopenMs = reopenMsMin;
      }
    } finally {
      stream.abort();
      clearInterval(silence);
    }
  }

  async function follow(): Promise<void> {
    while (!closing.signal.aborted) {
      try {
        await followOnce();
      } catch (err) {
        if (!closing.signal.aborted) failures.failed(err, 'broke off; reopening it');
      }
      await delay(reopenMs, undefined, { signal: closing.signal }).catch(() => {});
      reopenMs = Math.min(reopenMs * 2, reopenMsMax);
    }
  }

  const following = follow();
  return {
    first: first.promise,
    silentMs: () => performance.now() - heardMs,
    reopen: () => stream.abort(),
    close: async () => {
      closing.abort();
      stream.abort();
      first.resolve();
      await following;
    },
  };
}
