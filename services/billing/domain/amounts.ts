/** The smaller of two amounts; Math.min does not accept bigints. */
export function smaller(a: bigint, b: bigint): bigint {
  if (a < b) return a;
  return b;
}

/** The larger of two amounts. */
export function larger(a: bigint, b: bigint): bigint {
  if (a > b) return a;
  return b;
}
