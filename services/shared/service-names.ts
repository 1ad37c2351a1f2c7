import type { Env } from './env.ts';
import { StartError } from './start-error.ts';

/** The services which own data, each with a Postgres schema of its own, in the order in which they start. */
export const serviceNames = ['keys', 'models', 'billing', 'usage', 'auth', 'jobs'] as const;
/** Answers InferenceService for callers which have no inference part of their own; it owns no data. */
export const inferencePart = 'inference';
/** What can answer other processes, by the names of RPC_URLS. */
export const rpcNames: readonly string[] = [...serviceNames, inferencePart];
export type ServiceName = (typeof serviceNames)[number];

export const isServiceName = (name: string): name is ServiceName => (serviceNames as readonly string[]).includes(name);

/** Stops a start from which nothing could be served: each call of a service without an address is a 503. */
export function requireUrls({ rpcUrls }: Pick<Env, 'rpcUrls'>, names: readonly ServiceName[]): void {
  const missing = names.filter((name) => !rpcUrls.has(name));
  if (missing.length === 0) return;
  const example = missing.map((name) => `${name}=http://10.0.0.5:8081`).join(',');
  throw new StartError(`Set RPC_URLS to where these are: ${missing.join(', ')}; for example ${example}`);
}
