import type { Env } from './env.ts';
import { StartError } from './start-error.ts';

/** The services that own data, each with its own Postgres schema, in the order in which they start. */
export const serviceNames = ['keys', 'models', 'billing', 'usage', 'auth', 'jobs'] as const;
/** Answers InferenceService for callers without an inference part; owns no data. */
export const inferencePart = 'inference';
/** Everything that can answer other processes, by its name in RPC_URLS. */
export const rpcNames: readonly string[] = [...serviceNames, inferencePart];
export type ServiceName = (typeof serviceNames)[number];

export const isServiceName = (name: string): name is ServiceName => (serviceNames as readonly string[]).includes(name);

/** Refuses a start that could serve nothing: every call to a service without an address would be a 503. */
export function requireUrls({ rpcUrls }: Pick<Env, 'rpcUrls'>, names: readonly ServiceName[]): void {
  const missing = names.filter((name) => !rpcUrls.has(name));
  if (missing.length === 0) return;
  const example = missing.map((name) => `${name}=http://10.0.0.5:8081`).join(',');
  throw new StartError(`RPC_URLS has no address for ${missing.join(', ')}: add where they are, for example ${example}`);
}
