import type { CallOptions } from '@connectrpc/connect';
import { invalidRequest } from '#shared/errors.ts';
import type { RouteDeps } from '../../../app.ts';

/**
 * Refuses an allowlist that names a model which the caller's organization cannot use: a key with a misspelled one could call nothing. Names
 * that are already on the key's list may stay, since models retire. @throws INVALID_REQUEST naming the model.
 */
export async function requireUsableModels(
  { models, keys }: Pick<RouteDeps, 'models' | 'keys'>,
  names: readonly string[],
  options: CallOptions,
  keyId?: string,
): Promise<void> {
  if (names.length === 0) return;
  const usable = new Set((await models.listModels({}, options)).models.map(({ name }) => name));
  const unusable = names.filter((name) => !usable.has(name));
  if (unusable.length === 0) return;
  const { key } = keyId === undefined ? {} : await keys.getKey({ keyId }, options);
  const unknown = unusable.find((name) => !key?.constraints?.modelAllowlist.includes(name));
  if (unknown === undefined) return;
  throw invalidRequest(
    'model_allowlist',
    `Invalid value for \`model_allowlist\`: your organization has no model \`${unknown}\`.`,
    'invalid_value',
  );
}
