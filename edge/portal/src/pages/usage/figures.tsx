import type { ReactNode } from 'react';
import type { UsageEvent } from '../../api/types.ts';
import { formatQuantity } from '../../format/number.ts';
import { Money } from '../../ui/money.tsx';

type Used = Pick<UsageEvent, (typeof measured)[number][0] | 'cost_usd'>;

/** What a call used, and what that cost. */
export const figuresOf = (usage: Used): readonly (readonly [string, ReactNode])[] => [
  ...measured.flatMap(([measure, name]) =>
    usage[measure] > 0 ? [[name, formatQuantity(usage[measure])] as const] : [],
  ),
  ['Cost', <Money key="cost" exact usd={usage.cost_usd} />],
];

const measured = [
  ['input_tokens', 'Input tokens'],
  ['cached_input_tokens', 'Of which cached'],
  ['output_tokens', 'Output tokens'],
  ['images', 'Images'],
  ['audio_seconds', 'Seconds of audio'],
  ['characters', 'Characters'],
] as const;
