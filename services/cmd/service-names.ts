/** The services which own data, each with a Postgres schema of its own, in the order in which they start. */
export const serviceNames = ['keys', 'models', 'billing', 'usage', 'auth', 'jobs'] as const;
export type ServiceName = (typeof serviceNames)[number];
