import type { Static } from 'typebox';
import type { adminAuditEventSchema } from '../../../routes/api/admin/audit-events.ts';
import type { keyListSchema, keySchema, newKeySchema } from '../../../routes/api/api-keys/key-json.ts';
import type { auditEventSchema } from '../../../routes/api/audit-events.ts';
import type {
  budgetSchema,
  commitmentSchema,
  invoiceSchema,
  invoiceWithLinesSchema,
  planSchema,
  transactionSchema,
  walletSchema,
} from '../../../routes/api/billing/billing-json.ts';
import type { invitationSchema } from '../../../routes/api/invitations.ts';
import type { jobSchema, listedJobSchema } from '../../../routes/api/jobs/job-json.ts';
import type { jobStatsSchema } from '../../../routes/api/jobs/stats.ts';
import type { rateLimitsSchema } from '../../../routes/api/rate-limit-fields.ts';
import type { memberSchema, organizationSchema, profileSchema } from '../../../routes/api/user-json.ts';
import type { platformModelSchema, ratesSchema } from '../../../routes/v1/models.ts';

/** Times are ISO 8601 in UTC; amounts are numbers of USD. The shapes are those of the API. */
export type Pagination = {
  page: number;
  limit: number;
  total: number;
  total_pages: number;
  has_next: boolean;
  has_prev: boolean;
};
export type List<Item> = { data: Item[]; pagination: Pagination };
export type Profile = Static<typeof profileSchema>;

export type ApiKey = Static<typeof keySchema>;
export type KeyType = ApiKey['key_type'];
export type KeyList = Static<typeof keyListSchema>;
export type CreatedKey = Static<typeof newKeySchema>;

export type Volume = {
  requests: number;
  successful_requests: number;
  failed_requests: number;
  total_tokens: number;
  input_tokens: number;
  output_tokens: number;
  cached_input_tokens: number;
};
export type KeyAnalytics = {
  key_id: string;
  granularity: string;
  range: { start: string; end: string };
  timezone: string;
  totals: Volume;
  previous_totals: Volume;
  series: (Volume & { bucket_start: string })[];
  by_model: (Volume & { model: string })[];
  performance: {
    available: boolean;
    p50_latency_ms: number | null;
    p95_latency_ms: number | null;
    cache_hits: number | null;
    cache_misses: number | null;
    cached_tokens: number | null;
    tokens_per_second: number | null;
  };
  recent_activity: {
    id: string;
    occurred_at: string;
    model: string;
    endpoint: string;
    status: string;
    total_tokens: number;
    input_tokens: number;
    output_tokens: number;
    latency_ms: number;
  }[];
};

export type Rates = Static<typeof ratesSchema>;
export type Model = Static<typeof platformModelSchema>;

export type Measures = Volume & {
  images: number;
  audio_seconds: number;
  characters: number;
  duration_seconds: number;
  cost_usd: number;
};
export type CurrentUsage = Measures & {
  period_start: string;
  period_end: string;
  models: (Measures & { model: string })[];
};
export type UsageSummary = Measures & {
  by_model: (Measures & { model: string })[];
  by_endpoint: (Measures & { endpoint: string })[];
  by_api_key: (Measures & { api_key_id: string | null })[];
};
export type UsageReport = {
  granularity: string;
  timezone: string;
  buckets: (Measures & { start: string; end: string })[];
};
export type UsageEvent = {
  id: string;
  occurred_at: string;
  api_key_id: string | null;
  user_id: string;
  model: string;
  endpoint: string;
  success: boolean;
  status: number;
  error_code: string | null;
  input_tokens: number;
  output_tokens: number;
  total_tokens: number;
  latency_ms: number;
  cost_usd: number;
  request_id: string;
};
export type TenantBreakdown = {
  users: { user_id: string; email: string; requests: number; tokens: number; cost_usd: number }[];
};

export type Wallet = Static<typeof walletSchema>;
export type Commitment = Static<typeof commitmentSchema>;
export type RateLimitValues = Static<typeof rateLimitsSchema>;
export type Plan = Static<typeof planSchema>;
export type Invoice = Static<typeof invoiceSchema>;
export type InvoiceWithLines = Static<typeof invoiceWithLinesSchema>;
export type Transaction = Static<typeof transactionSchema>;
export type Budget = Static<typeof budgetSchema>;
export type RateLimits = {
  limits: RateLimitValues;
  remaining: RateLimitValues;
  reset_seconds: Omit<RateLimitValues, 'concurrent_requests'>;
};

export type Job = Static<typeof jobSchema>;
export type ListedJob = Static<typeof listedJobSchema>;
export type JobStats = Static<typeof jobStatsSchema>;

export type Member = Static<typeof memberSchema>;
export type Invitation = Static<typeof invitationSchema>;
/** Operators alone are told whose chain it is in. */
export type AuditEvent = Static<typeof auditEventSchema> & Partial<Static<typeof adminAuditEventSchema>>;
export type Organization = Static<typeof organizationSchema>;
