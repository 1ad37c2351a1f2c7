/** The shortest password of an invitation, in characters (service.md, Invitation flow). */
const passwordLengthMin = 8;

const rules: readonly [pattern: RegExp, name: string][] = [
  [/\p{Lu}/u, 'an upper-case letter'],
  [/\p{Ll}/u, 'a lower-case letter'],
  [/\p{Nd}/u, 'a digit'],
  [/[^\p{L}\p{N}\s]/u, 'a special character'],
];

/** What a password lacks, in words; empty when it is acceptable. */
export function passwordLacks(password: string): string[] {
  const lacks = rules.filter(([pattern]) => !pattern.test(password)).map(([, name]) => name);
  return [...password].length < passwordLengthMin ? [`at least ${passwordLengthMin} characters`, ...lacks] : lacks;
}
