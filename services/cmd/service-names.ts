/** The services which own data, each with a Postgres schema of its own. */
export const serviceNames = ['keys', 'auth', 'usage', 'billing', 'models', 'jobs'] as const;
/** All of them, in the order in which they start. */
export const builtServices = ['keys', 'models', 'billing', 'usage', 'auth', 'jobs'] as const;
export type ServiceName = (typeof serviceNames)[number];
