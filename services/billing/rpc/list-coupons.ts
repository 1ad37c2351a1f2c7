import { pageInfo, pageRows } from '#shared/page.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { CouponEntity } from '../db/entities.ts';
import { couponMessage } from '../db/messages.ts';
import type { BillingDeps, BillingRpc } from '../deps.ts';

export const listCoupons =
  ({ database }: Pick<BillingDeps, 'database'>): BillingRpc<'listCoupons'> =>
  async (request, context) => {
    operatorCaller(context);
    const page = pageRows(request.page);
    const { offset, limit } = page;
    const [rows, total] = await database
      .em()
      .findAndCount(CouponEntity, {}, { orderBy: { id: 'desc' }, offset, limit });
    return { coupons: rows.map((row) => couponMessage(row)), pageInfo: pageInfo(page, total) };
  };
