import type { ServiceImpl } from '@connectrpc/connect';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import { createReadTurns, readInTurn } from '#shared/rpc/read-turns.ts';
import type { BillingDeps } from './deps.ts';
import { assignPlan } from './rpc/assign-plan.ts';
import { charge } from './rpc/charge.ts';
import { createCommitment } from './rpc/create-commitment.ts';
import { createCoupon } from './rpc/create-coupon.ts';
import { deleteCostLimit } from './rpc/delete-cost-limit.ts';
import { deletePaygSpendCap } from './rpc/delete-payg-spend-cap.ts';
import { disableCoupon } from './rpc/disable-coupon.ts';
import { endCommitment } from './rpc/end-commitment.ts';
import { exportTransactions } from './rpc/export-transactions.ts';
import { findInvoice } from './rpc/find-invoice.ts';
import { getAccount } from './rpc/get-account.ts';
import { getCommitment } from './rpc/get-commitment.ts';
import { getCostLimit } from './rpc/get-cost-limit.ts';
import { getCurrentPlan } from './rpc/get-current-plan.ts';
import { getInvoice } from './rpc/get-invoice.ts';
import { getPaygSpendCap } from './rpc/get-payg-spend-cap.ts';
import { getSpendToday } from './rpc/get-spend-today.ts';
import { getWallet } from './rpc/get-wallet.ts';
import { grantCredit } from './rpc/grant-credit.ts';
import { lease } from './rpc/lease.ts';
import { listAccounts } from './rpc/list-accounts.ts';
import { listCommitments } from './rpc/list-commitments.ts';
import { listCoupons } from './rpc/list-coupons.ts';
import { listInvoiceTransactions } from './rpc/list-invoice-transactions.ts';
import { listInvoices } from './rpc/list-invoices.ts';
import { listPlans } from './rpc/list-plans.ts';
import { listTransactions } from './rpc/list-transactions.ts';
import { markInvoicePaid } from './rpc/mark-invoice-paid.ts';
import { postAdjustment } from './rpc/post-adjustment.ts';
import { putPlan } from './rpc/put-plan.ts';
import { receivePaymentEvent } from './rpc/receive-payment-event.ts';
import { redeemCoupon } from './rpc/redeem-coupon.ts';
import { refundTransaction } from './rpc/refund-transaction.ts';
import { releaseHold } from './rpc/release-hold.ts';
import { renderInvoicePdf } from './rpc/render-invoice-pdf.ts';
import { setCostLimit } from './rpc/set-cost-limit.ts';
import { setOrganizationRateLimits } from './rpc/set-organization-rate-limits.ts';
import { setPaygSpendCap } from './rpc/set-payg-spend-cap.ts';
import { settle } from './rpc/settle.ts';
import { verifyLedger } from './rpc/verify-ledger.ts';
import { voidCharge } from './rpc/void-charge.ts';
import { voidInvoice } from './rpc/void-invoice.ts';
import { watchRateLimits } from './rpc/watch-rate-limits.ts';

/** Money: the ledger, credit, plans, invoices, coupons and budgets. start.ts makes the dependencies. */
export function billingService(deps: BillingDeps): ServiceImpl<typeof BillingService> {
  const reads = createReadTurns();
  const inTurn = readInTurn(reads);
  return {
    charge: charge(deps),
    lease: lease(deps),
    settle: settle(deps),
    releaseHold: releaseHold(deps),
    voidCharge: voidCharge(deps),
    getSpendToday: getSpendToday(deps),
    watchRateLimits: watchRateLimits(deps),

    getWallet: getWallet(deps),
    getCommitment: getCommitment(deps),
    getCurrentPlan: getCurrentPlan(deps),
    listInvoices: listInvoices(deps),
    getInvoice: getInvoice(deps),
    renderInvoicePdf: renderInvoicePdf({ ...deps, reads }),
    listInvoiceTransactions: inTurn(listInvoiceTransactions(deps)),
    listTransactions: inTurn(listTransactions(deps)),
    exportTransactions: exportTransactions({ ...deps, reads }),
    redeemCoupon: redeemCoupon(deps),

    getCostLimit: getCostLimit(deps),
    setCostLimit: setCostLimit(deps),
    deleteCostLimit: deleteCostLimit(deps),
    getPaygSpendCap: getPaygSpendCap(deps),
    setPaygSpendCap: setPaygSpendCap(deps),
    deletePaygSpendCap: deletePaygSpendCap(deps),

    receivePaymentEvent: receivePaymentEvent(deps),

    listPlans: listPlans(deps),
    putPlan: putPlan(deps),
    assignPlan: assignPlan(deps),
    setOrganizationRateLimits: setOrganizationRateLimits(deps),
    getAccount: getAccount(deps),
    listAccounts: listAccounts(deps),
    findInvoice: findInvoice(deps),
    grantCredit: grantCredit(deps),
    createCommitment: createCommitment(deps),
    endCommitment: endCommitment(deps),
    listCommitments: listCommitments(deps),
    createCoupon: createCoupon(deps),
    listCoupons: listCoupons(deps),
    disableCoupon: disableCoupon(deps),
    refundTransaction: refundTransaction(deps),
    postAdjustment: postAdjustment(deps),
    markInvoicePaid: markInvoicePaid(deps),
    voidInvoice: voidInvoice(deps),
    verifyLedger: verifyLedger(deps),
  };
}
