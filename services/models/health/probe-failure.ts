import { messageOf } from '#shared/message-of.ts';

/** What operators read about a probe that failed. */
export const probeFailure = (error: unknown): string => `a probe failed: ${messageOf(error)}`;
