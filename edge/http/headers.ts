import { randomHex } from '#shared/ids.ts';

/** The value of a new `x-request-id`, which every answer has. */
export const newRequestId = (): string => `req_${randomHex()}`;

/** Headers which browsers may read across origins (openai-contract.md section 1); a text, since a list would be joined for each answer. */
export const exposedHeaders: string = [
  'x-request-id',
  'retry-after',
  'retry-after-ms',
  'x-should-retry',
  'deprecation',
  'sunset',
  'link',
  ...['limit', 'remaining', 'reset'].flatMap((word) => [`x-ratelimit-${word}-requests`, `x-ratelimit-${word}-tokens`]),
].join(', ');
