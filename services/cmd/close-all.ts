export type Closer = () => Promise<void> | void;

/** Closes all, the last one first, even if some fail. Throws the failures once all are closed. */
export async function closeAll(closers: readonly Closer[]): Promise<void> {
  const errors: unknown[] = [];
  for (const close of closers.toReversed()) {
    try {
      await close();
    } catch (error) {
      errors.push(error);
    }
  }
  throwAny(errors);
}

/** Closes all at the same time; throws like `closeAll`. */
export async function closeTogether(closers: readonly Closer[]): Promise<void> {
  const ends = await Promise.allSettled(closers.map(async (close) => close()));
  throwAny(ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : [])));
}

function throwAny(errors: readonly unknown[]): void {
  if (errors.length === 1) throw errors[0];
  if (errors.length > 1) throw new AggregateError(errors, `${errors.length} parts did not close`);
}
