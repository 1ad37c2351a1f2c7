/**
 * Does the work for one item after the other, until `signal` aborts. One that fails holds up no other: the first failure is what this rejects
 * with at its end.
 */
export async function eachByItself<Item>(
  items: readonly Item[],
  signal: AbortSignal,
  work: (item: Item) => Promise<void>,
): Promise<void> {
  const failures: unknown[] = [];
  for (const item of items) {
    if (signal.aborted) return;
    await work(item).catch((error) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
}
