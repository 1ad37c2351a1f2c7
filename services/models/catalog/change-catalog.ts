import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { AuditEventType } from '#shared/audit-outbox/event-types.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { transaction } from '#shared/db/transaction.ts';
import { once } from '#shared/idempotency.ts';
import { uuidv7 } from '#shared/ids.ts';
import { type Caller, operatorCaller } from '#shared/rpc/caller.ts';
import type { ModelsDeps } from '../deps.ts';
import { lockCatalog, touchCatalog } from './catalog-feed.ts';

/** What a change did. Without an audit event it found everything as it should be, and leaves it so. */
export type CatalogChange<Answer> = {
  answer: Answer;
  audit: { type: AuditEventType; target: { type: string; id: string }; before?: object; after?: object } | null;
};

type OncePer<Answer> = (
  em: SqlEntityManager,
  by: { caller: Caller; nowMs: number },
  work: () => Promise<Answer>,
) => Promise<Answer>;

/** Makes a change once per Idempotency-Key: a repeat is answered as the first request was, and changes nothing. */
export const oncePerKey =
  <Request extends DescMessage, Response extends DescMessage>(
    requestSchema: Request,
    responseSchema: Response,
    request: MessageShape<Request> & { idempotencyKey: string },
  ): OncePer<MessageShape<Response>> =>
  (em, by, work) =>
    once(em, { ...by, key: request.idempotencyKey, request, requestSchema, responseSchema }, work);

/**
 * Makes an operator's change of the catalog: one at a time, so that it decides on what is still true when it commits, together
 * with its audit event and a higher version. Resolves when this process answers by it; edges follow within a second.
 */
export async function changeCatalog<Answer>(
  { database, feed, clock }: Pick<ModelsDeps, 'database' | 'feed' | 'clock'>,
  context: HandlerContext,
  change: (em: SqlEntityManager, now: Date) => Promise<CatalogChange<Answer>>,
  oncePer: OncePer<Answer> = (_em, _by, work) => work(),
): Promise<Answer> {
  const caller = operatorCaller(context);
  const { answer, audit } = await transaction(database, async (em) => {
    await lockCatalog(em);
    const nowMs = clock.now();
    let audit = null as CatalogChange<Answer>['audit'];
    const answer = await oncePer(em, { caller, nowMs }, async () => {
      const done = await change(em, new Date(nowMs));
      audit = done.audit;
      return done.answer;
    });
    if (audit !== null) {
      await em.flush();
      await touchCatalog(em);
      await recordAuditEvent(em, {
        id: uuidv7(),
        tenantId: '',
        occurredAtMs: nowMs,
        caller,
        asOperator: true,
        ...audit,
      });
    }
    return { answer, audit };
  });
  if (audit !== null) await feed.refresh();
  return answer;
}
