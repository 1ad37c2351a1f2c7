import type { MessageInitShape } from '@bufbuild/protobuf';
import { IsolationLevel, type SqlEntityManager } from '@mikro-orm/postgresql';
import type { WalletSchema } from '#gen/modelgateway/billing/v1/wallet_pb.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import { CommitmentEntity, type CommitmentRow, LotEntity, type LotRow } from './db/entities.ts';
import { lotMessage } from './db/messages.ts';
import { byDrawOrder } from './domain/draw-order.ts';

/** What an organization holds at a moment, in the order in which it is drawn, or owes. */
export async function walletAt(
  database: Pick<ServiceDatabase, 'em'>,
  tenantId: string,
  nowMs: number,
): Promise<MessageInitShape<typeof WalletSchema>> {
  const { lots, overdraft } = await transaction(
    database,
    async (em) => {
      const [owing] = await em.execute<{ overdraft: string }[]>('select overdraft from accounts where tenant_id = ?', [
        tenantId,
      ]);
      const lots = await em.find(LotEntity, {
        tenantId,
        remainingNanoUsd: { $gt: 0n },
        $or: [{ expiresAt: null }, { expiresAt: { $gt: new Date(nowMs) } }],
      });
      return { lots, overdraft: BigInt(owing?.overdraft ?? 0) };
    },
    { isolationLevel: IsolationLevel.REPEATABLE_READ },
  );
  lots.sort((a, b) => byDrawOrder(drawable(a), drawable(b)));
  const balanceNanoUsd = lots.reduce((sum, lot) => sum + lot.remainingNanoUsd, -overdraft);
  return { balanceNanoUsd, currency: 'USD', lots: lots.map(lotMessage) };
}

const drawable = (lot: LotRow) => ({ ...lot, expiresAtMs: lot.expiresAt?.getTime() ?? null });

/** The commitment in force at a moment; null when none is. */
export const commitmentAt = (em: SqlEntityManager, tenantId: string, nowMs: number): Promise<CommitmentRow | null> => {
  const now = new Date(nowMs);
  return em.findOne(CommitmentEntity, { tenantId, periodStart: { $lte: now }, periodEnd: { $gt: now } });
};
