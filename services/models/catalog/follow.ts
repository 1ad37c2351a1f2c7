import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@connectrpc/connect';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { Logger } from '#shared/logger.ts';
import { callerContext, serviceCaller } from '#shared/rpc/caller.ts';
import type { Catalog } from './catalog.ts';

/** A feed that says nothing for this long is opened anew; a heartbeat is due each 500 ms. */
const silenceMs = 3_000;
const retryMs = 250;

export type Following = {
  /** Resolves with the first snapshot. */
  first: Promise<void>;
  close(): Promise<void>;
};

/** Keeps a catalog current from Models' feed. While the feed is broken the last snapshot stays in force. */
export function followCatalog(deps: {
  catalog: Catalog;
  models: Pick<Client<typeof ModelsService>, 'watchCatalog'>;
  logger: Logger;
}): Following {
  const { catalog, models, logger } = deps;
  const closing = new AbortController();
  const first = Promise.withResolvers<void>();

  async function follow(): Promise<void> {
    while (!closing.signal.aborted) {
      const silence = new AbortController();
      let timer = setTimeout(() => silence.abort(), silenceMs);
      try {
        const knownVersion = catalog.version < 0n ? 0n : catalog.version;
        const feed = models.watchCatalog(
          { knownVersion },
          {
            contextValues: callerContext(serviceCaller('inference')),
            signal: AbortSignal.any([closing.signal, silence.signal]),
          },
        );
        for await (const { snapshot } of feed) {
          clearTimeout(timer);
          timer = setTimeout(() => silence.abort(), silenceMs);
          if (snapshot === undefined) continue;
          catalog.replace(snapshot);
          first.resolve();
        }
      } catch (err) {
        if (!closing.signal.aborted)
          logger.warn({ err }, 'the catalog feed is broken; the last catalog stays in force');
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
