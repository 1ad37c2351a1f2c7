import type { Routes } from '../../../app.ts';
import { adminCommitmentRoutes } from '../admin/commitments.ts';
import { adminCouponRoutes } from '../admin/coupons.ts';
import { adminCreditRoutes } from '../admin/credits.ts';
import { adminInvoiceRoutes } from '../admin/invoices.ts';
import { adminPlanRoutes } from '../admin/plans.ts';
import { adminTransactionRoutes } from '../admin/transactions.ts';
import { costLimitRoutes } from '../profile/cost-limit.ts';
import { paymentWebhookRoutes } from '../webhooks/payments.ts';
import { couponRoutes } from './coupons.ts';
import { invoiceRoutes } from './invoices.ts';
import { paygSpendCapRoutes } from './payg-spend-cap.ts';
import { currentPlanRoutes } from './plan.ts';
import { transactionRoutes } from './transactions.ts';
import { walletRoutes } from './wallet.ts';

/** Everything about money: the organization's, each user's limit, the operators' side and the payment provider's webhook. */
export const billingRoutes: Routes = (app, deps) => {
  walletRoutes(app, deps);
  currentPlanRoutes(app, deps);
  invoiceRoutes(app, deps);
  transactionRoutes(app, deps);
  couponRoutes(app, deps);
  paygSpendCapRoutes(app, deps);
  costLimitRoutes(app, deps);
  adminPlanRoutes(app, deps);
  adminCreditRoutes(app, deps);
  adminCommitmentRoutes(app, deps);
  adminCouponRoutes(app, deps);
  adminInvoiceRoutes(app, deps);
  adminTransactionRoutes(app, deps);
  paymentWebhookRoutes(app, deps);
};
