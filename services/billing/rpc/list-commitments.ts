import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { CommitmentEntity } from '../db/entities.ts';
import { commitmentMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';

export const listCommitments =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'listCommitments'> =>
  async ({ tenantId, page: asked }, context) => {
    operatorCaller(context);
    const page = pageRows(asked);
    const { offset, limit } = page;
    const [rows, total] = await database
      .em()
      .findAndCount(CommitmentEntity, { tenantId }, { orderBy: { periodStart: 'desc', id: 'desc' }, offset, limit });
    return { commitments: rows.map(commitmentMessage), pageInfo: pageInfo(page, total) };
  };
