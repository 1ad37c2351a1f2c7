import type { Readiness } from '../../../edge/http/health.ts';
import type { Base } from '../base.ts';

/**
 * Whether a process takes traffic; an edge requires more. It does not depend on Postgres: while that is away, what is in memory is served,
 * and a lease can be extended only by the process that granted it.
 */
export const readinessOf =
  ({ progress }: Pick<Base, 'progress'>): Readiness =>
  () => {
    const { closing, catalogVersionMin, inference } = progress;
    if (closing) return { ready: false, reason: 'draining' };
    if (inference !== undefined) {
      if (!inference.takesCalls()) return { ready: false, reason: 'the metering journal cannot be written' };
      if (inference.catalogVersion() < (catalogVersionMin ?? 0n))
        return { ready: false, reason: 'no catalog from Models yet' };
      if (!inference.isPrepared()) return { ready: false, reason: 'no rate limits from Billing yet' };
    }
    return catalogVersionMin === undefined ? { ready: false, reason: 'still starting' } : { ready: true };
  };
