import type { Static } from 'typebox';
import type { adminJobSchema } from '../../../../openai/job-json.ts';
import type { deploymentSchema } from '../../../../routes/api/admin/deployments.ts';
import type { foundInvoiceSchema } from '../../../../routes/api/admin/invoices.ts';
import type { mailSchema } from '../../../../routes/api/admin/mail.ts';
import type { adminModelSchema } from '../../../../routes/api/admin/models.ts';
import type { listedOrganizationSchema } from '../../../../routes/api/admin/organizations/listed-organizations.ts';
import type { organizationDetailsSchema } from '../../../../routes/api/admin/organizations/organization.ts';
import type { adminOrganizationSchema } from '../../../../routes/api/admin/organizations/organization-json.ts';
import type { accountSchema, adminPlanSchema } from '../../../../routes/api/admin/plans.ts';
import type { priceSchema } from '../../../../routes/api/admin/prices.ts';
import type { reminderSchema } from '../../../../routes/api/admin/reminders.ts';
import type { adminRetirementSchema } from '../../../../routes/api/admin/retirements.ts';
import type { adminUserSchema } from '../../../../routes/api/admin/users.ts';
import type { adminKeySchema } from '../../../../routes/api/api-keys/key-json.ts';
import type { couponSchema } from '../../../../routes/api/billing/billing-json.ts';
import type { ownRateLimitsSchema } from '../../../../routes/api/rate-limit-fields.ts';
import type { adminEventSchema } from '../../../../routes/api/usage/event-json.ts';

/* The shapes of /api/v1/admin, which only operators see. */

/** A null limit is left to the level above. */
export type OwnRateLimits = Static<typeof ownRateLimitsSchema>;
export type AdminOrganization = Static<typeof adminOrganizationSchema>;
/** With its money in a few figures. */
export type ListedOrganization = Static<typeof listedOrganizationSchema>;
/** One organization in detail, as opposed to an entry of a list. */
export type AdminOrganizationDetails = Static<typeof organizationDetailsSchema>;
export type AdminPlan = Static<typeof adminPlanSchema>;
export type AdminUser = Static<typeof adminUserSchema>;
export type FoundInvoice = Static<typeof foundInvoiceSchema>;
export type Account = Static<typeof accountSchema>;
export type AdminKey = Static<typeof adminKeySchema>;
export type AdminDeployment = Static<typeof deploymentSchema>;
export type AdminPrice = Static<typeof priceSchema>;
export type AdminModel = Static<typeof adminModelSchema>;
export type AdminRetirement = Static<typeof adminRetirementSchema>;
export type Reminder = Static<typeof reminderSchema>;
export type Coupon = Static<typeof couponSchema>;
export type Mail = Static<typeof mailSchema>;
export type AdminJob = Static<typeof adminJobSchema>;
export type AdminCall = Static<typeof adminEventSchema>;
