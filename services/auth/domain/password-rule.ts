import { invalidRequest } from '#shared/errors.ts';

/** The shortest password of an invitation, in characters (service.md, Invitation flow). */
const passwordLengthMin = 8;

const rules: readonly [pattern: RegExp, name: string][] = [
  [/\p{Lu}/u, 'an upper-case letter'],
  [/\p{Ll}/u, 'a lower-case letter'],
  [/\p{Nd}/u, 'a digit'],
  [/[^\p{L}\p{N}\s]/u, 'a special character'],
];

const listed = new Intl.ListFormat('en-GB');

/** Refuses a password that breaks the rule of service.md (Invitation flow), and says what it lacks. */
export function requireStrongPassword(password: string, param: 'password' | 'new_password'): void {
  const lacks = passwordLacks(password);
  if (lacks.length === 0) return;
  throw invalidRequest(param, `The password is too weak: it needs ${listed.format(lacks)}.`, 'weak_password');
}

function passwordLacks(typed: string): string[] {
  // As it is hashed: an accent that comes after its letter is no character of its own.
  const password = typed.normalize('NFC');
  const lacks = rules.filter(([pattern]) => !pattern.test(password)).map(([, name]) => name);
  return [...password].length < passwordLengthMin ? [`at least ${passwordLengthMin} characters`, ...lacks] : lacks;
}
