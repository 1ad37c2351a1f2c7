import type { CallOptions } from '@connectrpc/connect';
import { modelNotUsable } from '#shared/errors.ts';
import type { RouteDeps } from '../../../app.ts';

/** The models of an allowlist that the caller's organization cannot use: a key with a misspelled one could call nothing. */
export async function unusableModels(
  { models }: Pick<RouteDeps, 'models'>,
  names: readonly string[],
  options: CallOptions,
): Promise<string[]> {
  if (names.length === 0) return [];
  const usable = new Set((await models.listModels({ names: [...names] }, options)).models.map(({ name }) => name));
  return names.filter((name) => !usable.has(name));
}

/**
 * Refuses a key's new allowlist that names such a model. Names that are already on the key's list may stay, since models retire.
 * @throws INVALID_REQUEST naming the model.
 */
export async function requireUsableModels(
  deps: Pick<RouteDeps, 'models' | 'keys'>,
  names: readonly string[],
  options: CallOptions,
  keyId: string,
): Promise<void> {
  const unusable = await unusableModels(deps, names, options);
  if (unusable.length === 0) return;
  const { key } = await deps.keys.getKey({ keyId }, options);
  const unknown = unusable.find((name) => !key?.constraints?.modelAllowlist.includes(name));
  if (unknown !== undefined) throw modelNotUsable(unknown);
}
