/** What operators read about a probe that failed. */
export const probeFailure = (error: unknown): string => `a probe failed: ${messageOf(error as Error)}`;

/** A host with several addresses fails once for each of them, and its own message is empty. */
const messageOf = (error: Error): string =>
  error instanceof AggregateError ? error.errors.map(({ message }) => message).join('; ') : error.message;
