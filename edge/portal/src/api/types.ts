import type { Static } from 'typebox';
import type { paginationSchema } from '../../../http/json.ts';
import type { jobSchema, listedJobSchema } from '../../../openai/job-json.ts';
import type { adminAuditEventSchema } from '../../../routes/api/admin/audit-events.ts';
import type { keyListSchema, keySchema, newKeySchema } from '../../../routes/api/api-keys/key-json.ts';
import type { auditEventSchema } from '../../../routes/api/audit-events.ts';
import type { invitedToSchema } from '../../../routes/api/auth/invitation.ts';
import type {
  budgetSchema,
  commitmentSchema,
  currentPlanSchema,
  invoiceSchema,
  invoiceWithLinesSchema,
  planSchema,
  transactionSchema,
  walletSchema,
} from '../../../routes/api/billing/billing-json.ts';
import type { invitationSchema } from '../../../routes/api/invitations.ts';
import type { jobStatsSchema } from '../../../routes/api/jobs/stats.ts';
import type { rateLimitStateSchema, rateLimitsSchema } from '../../../routes/api/rate-limit-fields.ts';
import type { eventSchema } from '../../../routes/api/usage/event-json.ts';
import type { keyAnalyticsSchema, volumeSchema } from '../../../routes/api/usage/key-analytics-json.ts';
import type { measuresSchema } from '../../../routes/api/usage/measures-json.ts';
import type {
  currentUsageSchema,
  reportSchema,
  summarySchema,
  tenantBreakdownSchema,
} from '../../../routes/api/usage/report-json.ts';
import type { memberSchema, organizationSchema, profileSchema } from '../../../routes/api/user-json.ts';
import type { platformModelSchema, ratesSchema } from '../../../routes/v1/models.ts';

/** The shapes are those of the API. Times are ISO 8601 in UTC; amounts are numbers of USD. */
export type Pagination = Static<typeof paginationSchema>;
export type List<Item> = { data: Item[]; pagination: Pagination };
export type Profile = Static<typeof profileSchema>;

export type ApiKey = Static<typeof keySchema>;
export type KeyType = ApiKey['key_type'];
export type KeyList = Static<typeof keyListSchema>;
export type CreatedKey = Static<typeof newKeySchema>;

export type Volume = Static<typeof volumeSchema>;
export type KeyAnalytics = Static<typeof keyAnalyticsSchema>;

export type Rates = Static<typeof ratesSchema>;
export type Model = Static<typeof platformModelSchema>;

export type Measures = Static<typeof measuresSchema>;
export type CurrentUsage = Static<typeof currentUsageSchema>;
export type UsageSummary = Static<typeof summarySchema>;
export type UsageReport = Static<typeof reportSchema>;
export type UsageEvent = Static<typeof eventSchema>;
export type TenantBreakdown = Static<typeof tenantBreakdownSchema>;

export type Wallet = Static<typeof walletSchema>;
export type Commitment = Static<typeof commitmentSchema>;
export type RateLimitValues = Static<typeof rateLimitsSchema>;
export type Plan = Static<typeof planSchema>;
export type CurrentPlan = Static<typeof currentPlanSchema>;
export type Invoice = Static<typeof invoiceSchema>;
export type InvoiceWithLines = Static<typeof invoiceWithLinesSchema>;
export type Transaction = Static<typeof transactionSchema>;
export type Budget = Static<typeof budgetSchema>;
export type RateLimits = Static<typeof rateLimitStateSchema>;

export type Job = Static<typeof jobSchema>;
export type ListedJob = Static<typeof listedJobSchema>;
export type JobStats = Static<typeof jobStatsSchema>;

export type Member = Static<typeof memberSchema>;
export type Invitation = Static<typeof invitationSchema>;
export type InvitedTo = Static<typeof invitedToSchema>;
/** Only operators are told whose chain an event is in. */
export type AuditEvent = Static<typeof auditEventSchema> & Partial<Static<typeof adminAuditEventSchema>>;
export type Organization = Static<typeof organizationSchema>;
