type Fields = Readonly<Record<string, unknown>>;

/** Lists up to this length are shown whole. */
const wholeListMax = 20;

/**
 * The fields that differ, before and after, for an audit event; null when none does. They are compared as JSON shows them. For a longer
 * list: how many entries there were and are, and those added or removed, so that the trail does not repeat a list for each change of it.
 */
export function changedFields(before: Fields, after: Fields): { before: Fields; after: Fields } | null {
  const names = Object.keys(after).filter((name) => JSON.stringify(before[name]) !== JSON.stringify(after[name]));
  if (names.length === 0) return null;
  const pick = (fields: Fields, others: Fields, differing: 'removed' | 'added'): Fields =>
    Object.fromEntries(names.map((name) => [name, told(fields[name], others[name], differing)]));
  return { before: pick(before, after, 'removed'), after: pick(after, before, 'added') };
}

function told(value: unknown, other: unknown, differing: 'removed' | 'added'): unknown {
  if (!Array.isArray(value) || !Array.isArray(other)) return value;
  if (Math.max(value.length, other.length) <= wholeListMax) return value;
  const others = new Set(other.map((entry) => JSON.stringify(entry)));
  return { count: value.length, [differing]: value.filter((entry) => !others.has(JSON.stringify(entry))) };
}
