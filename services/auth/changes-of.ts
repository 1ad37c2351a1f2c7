type Fields = Readonly<Record<string, unknown>>;

/** The fields which differ, before and after, for an audit event; null when none do. */
export function changesOf<Shown extends Fields>(before: Shown, after: Shown): { before: Fields; after: Fields } | null {
  const changed = Object.keys(after).filter((field) => before[field] !== after[field]);
  if (changed.length === 0) return null;
  const only = (fields: Shown): Fields => Object.fromEntries(changed.map((field) => [field, fields[field]]));
  return { before: only(before), after: only(after) };
}
