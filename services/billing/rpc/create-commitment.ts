import { timestampMs } from '@bufbuild/protobuf/wkt';
import { CreateCommitmentRequestSchema } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';
import { recordAuditEvent } from '#shared/audit-outbox/record-audit-event.ts';
import type { Sql } from '#shared/db/sql.ts';
import { sqlTransaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';
import { onceNamed } from '#shared/idempotency.ts';
import { uuidv7 } from '#shared/ids.ts';
import { usdJson } from '#shared/money.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { CommitmentEntity } from '../db/entities.ts';
import { commitmentMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';
import { postingDefaults, transfer } from '../domain/ledger.ts';
import { lockAccount, requireRoomInAccount } from '../ledger/accounts.ts';
import { findRequest } from '../ledger/credit.ts';
import { post } from '../ledger/post.ts';

/** Lists do not show it; by it a repeat is told from another agreement, even once this one has been ended early. */
const agreed = (start: Date, end: Date): string => `Commitment from ${start.toISOString()} to ${end.toISOString()}`;

export const createCommitment =
  ({ database, databaseNow }: Pick<BillingDeps, 'database' | 'databaseNow'>): BillingRpc<'createCommitment'> =>
  async (request, context) => {
    const caller = operatorCaller(context);
    const tenantId = request.tenantId.toLowerCase();
    const { amountNanoUsd, requestId } = request;
    const start = new Date(timestampMs(request.periodStart!));
    const end = new Date(timestampMs(request.periodEnd!));
    if (end <= start) throw invalidRequest('period_end', 'period_end must be after period_start.', 'invalid_value');
    const description = agreed(start, end);

    const id = await sqlTransaction(database, async (sql) => {
      const nowMs = await databaseNow(sql);
      const call = { caller, key: requestId, request, requestSchema: CreateCommitmentRequestSchema, nowMs };
      return onceNamed(sql, call, async () => {
        const account = await lockAccount(sql, tenantId);
        const earlier = await findRequest(sql, tenantId, {
          requestId,
          type: TransactionType.UNSPECIFIED,
          amountNanoUsd,
          description,
        });
        if (earlier !== null) return earlier.itemId!;
        if (end.getTime() <= nowMs)
          throw invalidRequest('period_end', 'period_end must be in the future.', 'invalid_value');
        await refuseOverlap(sql, tenantId, { start, end, nowMs });
        requireRoomInAccount(account, amountNanoUsd);
        const id = uuidv7();
        await sql.query({
          text: `
          insert into commitments (tenant_id, id, amount_nano_usd, period_start, period_end, created_at)
          values ($1, $2, $3, $4, $5, $6)`,
          values: [tenantId, id, amountNanoUsd, start, end, new Date(nowMs)],
        });
        // An agreement moves no wallet, so the organization's lists do not show it.
        const posting = {
          ...postingDefaults,
          type: TransactionType.UNSPECIFIED,
          amountNanoUsd: 0n,
          description,
          requestId,
          entries: transfer(amountNanoUsd, 'funding', 'commitment', { credited: id }),
        };
        await post(sql, [{ account, postings: [posting] }], nowMs);
        await recordAuditEvent(sql, {
          caller,
          occurredAtMs: nowMs,
          tenantId,
          type: 'commitment_created',
          target: { type: 'commitment', id },
          after: {
            amount_usd: usdJson(amountNanoUsd),
            period_start: start.toISOString(),
            period_end: end.toISOString(),
          },
          asOperator: true,
        });
        return id;
      });
    });
    return { commitment: commitmentMessage(await database.em().findOneOrFail(CommitmentEntity, { tenantId, id })) };
  };

/**
 * The organization is locked, so no other commitment can come in between. One that has ended is no obstacle: if it was ended because it was
 * wrong, the right one covers the same time.
 */
async function refuseOverlap(
  sql: Sql,
  tenantId: string,
  { start, end, nowMs }: { start: Date; end: Date; nowMs: number },
): Promise<void> {
  const { rows } = await sql.query({
    text: `select id from commitments
      where tenant_id = $1 and period_start < $3 and period_end > greatest($2::timestamptz, $4) limit 1`,
    values: [tenantId, start, end, new Date(nowMs)],
  });
  if (rows.length > 0)
    throw gatewayError(ErrorReason.CONFLICT, 'The organization already has a commitment in this period.');
}
