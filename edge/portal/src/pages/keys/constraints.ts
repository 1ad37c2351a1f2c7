import type { constraintFields } from '../../../../routes/api/api-keys/key-fields.ts';
import type { ApiKey } from '../../api/types.ts';
import { numberOrText, plainNumber } from '../../format/number.ts';

/** The constraints as the API takes them; null: none. A text that is no number is left for the gateway to refuse. */
type Constraints = Record<keyof typeof constraintFields, string[] | number | string | null>;

/** The fields as text while they are being typed. */
export type ConstraintTexts = { models: string; addresses: string; cap: string };

/** The texts for a key's constraints; empty for a new key. */
export const constraintTexts = (key?: ApiKey): ConstraintTexts => ({
  models: key?.model_allowlist?.join('\n') ?? '',
  addresses: key?.ip_allowlist?.join('\n') ?? '',
  cap: key?.spend_cap_usd == null ? '' : plainNumber(key.spend_cap_usd),
});

/** The names in the text. Blanks do not end one: servers that name models by their files have some with blanks. */
export const modelNames = (text: string): string[] =>
  text
    .split(/[\n,;]/)
    .map((name) => name.trim())
    .filter(Boolean);

export function constraintsOf(texts: ConstraintTexts): Constraints {
  const models = modelNames(texts.models);
  const addresses = texts.addresses.split(/[\s,;]+/).filter(Boolean);
  const cap = texts.cap.trim();
  return {
    model_allowlist: models.length === 0 ? null : models,
    ip_allowlist: addresses.length === 0 ? null : addresses,
    spend_cap_usd: cap === '' ? null : numberOrText(cap),
  };
}

export const constraintFieldNames = Object.keys(constraintsOf(constraintTexts()));
