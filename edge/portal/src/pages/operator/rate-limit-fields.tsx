import type { RateLimitValues } from '../../api/types.ts';
import { numberOrText } from '../../format/number.ts';
import { TextField } from '../../ui/field.tsx';
import type { OwnRateLimits } from './types.ts';

export const limitNames = ['requests_per_minute', 'tokens_per_minute', 'concurrent_requests'] as const;
type LimitName = (typeof limitNames)[number];
type LimitTexts = Readonly<Record<LimitName, string>>;

export const limitLabels: Readonly<Record<LimitName, string>> = {
  requests_per_minute: 'Requests / min',
  tokens_per_minute: 'Tokens / min',
  concurrent_requests: 'Concurrent',
};

type RateLimitFieldsProps = {
  texts: LimitTexts;
  onChange: (texts: LimitTexts) => void;
  /** The values that apply where a field is empty, once known. */
  inherited?: RateLimitValues | undefined;
  /** Whose values those are. */
  whose?: string;
  /** What the API said about a limit. */
  error: (limit: LimitName) => string | null;
};

/** A field for each rate limit that a plan, an organization or a key can have of its own. */
export function RateLimitFields({ texts, onChange, inherited, whose = "Plan's", error }: RateLimitFieldsProps) {
  return limitNames.map((limit) => (
    <TextField
      key={limit}
      label={limitLabels[limit]}
      inputMode="numeric"
      placeholder={String(inherited?.[limit] ?? whose)}
      value={texts[limit]}
      onChange={(text) => onChange({ ...texts, [limit]: text })}
      error={error(limit)}
    />
  ));
}

/** The texts that the fields show for given limits. */
export function limitTexts(limits: OwnRateLimits | null | undefined): LimitTexts {
  const text = (name: LimitName) => String(limits?.[name] ?? '');
  return {
    requests_per_minute: text('requests_per_minute'),
    tokens_per_minute: text('tokens_per_minute'),
    concurrent_requests: text('concurrent_requests'),
  };
}

/** The limits that were typed anew, as they are sent to the API: null for an emptied field. */
export function changedLimits(
  before: LimitTexts,
  texts: LimitTexts,
): Partial<Record<LimitName, number | string | null>> {
  const changed = limitNames.filter((limit) => texts[limit].trim() !== before[limit]);
  return Object.fromEntries(changed.map((limit) => [limit, limitOf(texts[limit])]));
}

const limitOf = (text: string): number | string | null => (text.trim() === '' ? null : numberOrText(text));
