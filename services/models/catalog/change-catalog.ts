import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import type { HandlerContext } from '@connectrpc/connect';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { AuditEventType } from '#shared/audit-outbox/event-types.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import { transaction } from '#shared/db/transaction.ts';
import { once } from '#shared/idempotency.ts';
import { type Caller, CallerKind, callerOf, operatorCaller } from '#shared/rpc/caller.ts';
import { slicesOf } from '#shared/slices.ts';
import type { ModelsDeps } from '../deps.ts';
import { keepPromises, standingPromises } from '../retirements/promises.ts';
import { lockCatalog, touchCatalog } from './catalog-feed.ts';

/** What a change did. Without an audit event it found everything as requested and changed nothing; few need more than one. */
type CatalogChange<Answer> = {
  answer: Answer;
  audit: CatalogAudit | readonly CatalogAudit[] | null;
};

type CatalogAudit = { type: AuditEventType; target: { type: string; id: string }; before?: object; after?: object };

/** The most names in one audit event: of 255 characters, and three bytes to a character, they leave it some room (audit.proto). */
const auditedNamesMax = 300;

/** The audit events of one change of many models, as `models`; the first has the other fields too, and any others only further names. */
export const auditsOfModels = (names: readonly string[], { after, ...event }: CatalogAudit): CatalogAudit[] =>
  Array.from(slicesOf(names, auditedNamesMax), (models, index) => ({
    ...event,
    after: { models, ...(index === 0 ? after : {}) },
  }));

type OncePer<Answer> = (
  em: SqlEntityManager,
  by: { caller: Caller; nowMs: number },
  work: () => Promise<Answer>,
) => Promise<Answer>;

/** Makes a change once per Idempotency-Key: a repeat gets the first answer and changes nothing. */
export const oncePerKey =
  <Request extends DescMessage, Response extends DescMessage>(
    requestSchema: Request,
    responseSchema: Response,
    request: MessageShape<Request> & { idempotencyKey: string },
  ): OncePer<MessageShape<Response>> =>
  (em, by, work) =>
    once(em, { ...by, key: request.idempotencyKey, request, requestSchema, responseSchema }, work);

type CatalogDeps = Pick<ModelsDeps, 'database' | 'feed' | 'clock'>;
type Change<Answer> = (em: SqlEntityManager, now: Date) => Promise<CatalogChange<Answer>>;

/**
 * Makes an operator's change of the catalog, one at a time, so that its decision still holds when it commits, together with its audit event
 * and a higher version. Resolves once this process goes by it, unless the database was lost in between; edges follow within a second.
 */
export const changeCatalog = async <Answer>(
  deps: CatalogDeps,
  context: HandlerContext,
  change: Change<Answer>,
  oncePer?: OncePer<Answer>,
): Promise<Answer> => changeCatalogBy(deps, operatorCaller(context), change, oncePer);

/** A change about which users may have to be told, or told something else than was planned. */
export async function changeRetirement<Answer>(
  deps: CatalogDeps & Pick<ModelsDeps, 'onRetirementChange'>,
  context: HandlerContext,
  change: Change<Answer>,
  oncePer?: OncePer<Answer>,
): Promise<Answer> {
  const answer = await changeCatalog(deps, context, change, oncePer);
  deps.onRetirementChange();
  return answer;
}

/**
 * Operators, and a starting gateway, which registers what its environment names, may register models of other servers. Other callers fail
 * with INSUFFICIENT_ROLE.
 */
export function operatorOrStart(context: HandlerContext): Caller {
  const caller = callerOf(context);
  return caller.kind === CallerKind.SERVICE && caller.service === 'bootstrap' ? caller : operatorCaller(context);
}

/** `changeCatalog` for a caller already known to be allowed. */
export async function changeCatalogBy<Answer>(
  { database, feed, clock }: CatalogDeps,
  caller: Caller,
  change: Change<Answer>,
  oncePer: OncePer<Answer> = (_em, _by, work) => work(),
): Promise<Answer> {
  const { answer, audit } = await transaction(database, async (em) => {
    await lockCatalog(em);
    const promises = await standingPromises(em);
    const nowMs = clock.now();
    let audit = null as CatalogChange<Answer>['audit'];
    const answer = await oncePer(em, { caller, nowMs }, async () => {
      const done = await change(em, new Date(nowMs));
      audit = done.audit;
      return done.answer;
    });
    if (audit !== null) {
      await em.flush();
      await keepPromises(em, promises);
      await touchCatalog(em);
      for (const event of [audit].flat())
        await recordAuditEvent(em, { tenantId: '', occurredAtMs: nowMs, caller, asOperator: true, ...event });
    }
    return { answer, audit };
  });
  // The change is made, whether it can be read again now or not: then its notification has the feed read until it can.
  if (audit !== null) await feed.refresh().catch(() => {});
  return answer;
}
