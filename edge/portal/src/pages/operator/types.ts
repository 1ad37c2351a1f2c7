import type { Static } from 'typebox';
import type { mailSchema } from '../../../../routes/api/admin/mail.ts';
import type { adminUserSchema } from '../../../../routes/api/admin/users.ts';
import type {
  ApiKey,
  Budget,
  Commitment,
  Job,
  Model,
  Organization,
  Plan,
  Price,
  RateLimitValues,
  Wallet,
} from '../../api/types.ts';

/* The shapes of /api/v1/admin, which only operators see. */

/** Limits of a plan's, an organization's or a key's own; null leaves one to whoever decides above. */
export type OwnRateLimits = { [Limit in keyof RateLimitValues]: number | null };
export type AdminOrganization = Organization & {
  suspended_at: string | null;
  suspension_reason: string | null;
};
/** One that is looked at, and not one of a list. */
export type AdminOrganizationDetails = AdminOrganization & {
  member_count: number;
  /** How many keys each user may have; null: as many as they like. */
  key_quota: number | null;
  /** Null where the plan's hold. */
  rate_limits: OwnRateLimits | null;
  effective_rate_limits: RateLimitValues;
  /** Its code. */
  plan: string;
};
export type AdminCommitment = Commitment & { id: string };
export type AdminPlan = Plan & {
  /** Null where the platform's hold. */
  own_rate_limits: OwnRateLimits | null;
  payment_terms_days: number;
};
export type AdminUser = Static<typeof adminUserSchema>;
export type Account = {
  plan: Plan | null;
  wallet: Wallet | null;
  commitment: Commitment | null;
  payg: Budget | null;
  receivable_usd: number;
};
export type AdminKey = Omit<ApiKey, 'budget'> & {
  tenant_id: string;
  user_id: string;
  status: 'active' | 'expired' | 'revoked';
  revoked_at: string | null;
  rate_limits: OwnRateLimits;
};
export type AdminDeployment = {
  id: string;
  model: string;
  status: string;
  status_reason: string | null;
  status_changed_at: string | null;
  base_url: string | null;
  upstream_model: string;
  secret_reference: string | null;
  weight: number;
  priority: number;
  concurrency_limit: number;
  dialect: string;
  enabled: boolean;
  created_at: string;
};
export type AdminPrice = Price & { id: string; model: string; effective_from: string };
export type AdminModel = Omit<Model, 'deployments' | 'prices'> & {
  deployments: AdminDeployment[];
  prices: AdminPrice[];
  granted_tenant_ids: string[];
};
export type AdminRetirement = {
  id: string;
  model: string;
  deprecated_at: string;
  sunset_at: string | null;
  replacement_model_name: string | null;
  retirement_note: string | null;
  withdrawn_at: string | null;
  reminders_sent: number;
  reminders_pending: number;
};
export type Reminder = {
  id: string;
  email: string;
  point: 'announcement' | 'thirty_days' | 'seven_days' | 'one_day' | 'retirement_day';
  status: 'pending' | 'sent' | 'failed' | 'cancelled';
  due_at: string;
  sent_at: string | null;
  last_error: string | null;
};
export type Coupon = {
  id: string;
  code: string;
  amount_usd: number;
  redemptions_max: number;
  redemptions: number;
  redeem_until: string | null;
  credit_lifetime_days: number | null;
  disabled_at: string | null;
  created_at: string;
};
export type Mail = Static<typeof mailSchema>;
export type AdminJob = Job & { tenant_id: string; user_id: string; attempts: number };
