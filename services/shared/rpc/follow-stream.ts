import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '#shared/logger.ts';

/** A stream that says nothing for this long is opened anew; a heartbeat is due each 500 ms. */
const silenceMs = 3_000;
const retryMs = 250;

export type Following = {
  /** Resolves with the first message that `onMessage` says is one of content, or when the following ends. */
  first: Promise<void>;
  close(): Promise<void>;
};

/** Follows a service's endless stream, and opens it again whenever it ends, fails or falls silent. */
export function followStream<Message>(options: {
  /** What it is, for the log, e.g. `the catalog feed`. */
  name: string;
  open(signal: AbortSignal): AsyncIterable<Message>;
  /** Takes a message; true when it was more than a heartbeat. */
  onMessage(message: Message): boolean;
  logger: Pick<Logger, 'warn'>;
}): Following {
  const { name, open, onMessage, logger } = options;
  const closing = new AbortController();
  const first = Promise.withResolvers<void>();

  async function follow(): Promise<void> {
    while (!closing.signal.aborted) {
      const silence = new AbortController();
      let timer = setTimeout(() => silence.abort(), silenceMs);
      try {
        for await (const message of open(AbortSignal.any([closing.signal, silence.signal]))) {
          clearTimeout(timer);
          timer = setTimeout(() => silence.abort(), silenceMs);
          if (onMessage(message)) first.resolve();
        }
      } catch (err) {
        if (!closing.signal.aborted) logger.warn({ err }, `${name} is broken; what it last said stays in force`);
      } finally {
        clearTimeout(timer);
      }
      await delay(retryMs, undefined, { signal: closing.signal }).catch(() => {});
    }
  }

  const following = follow();
  return {
    first: first.promise,
    close: async () => {
      closing.abort();
      first.resolve();
      await following;
    },
  };
}
