import { invalidRequest } from '#shared/errors.ts';
import { passwordLacks } from '../domain/password-rule.ts';

const listed = new Intl.ListFormat('en-GB');

/** Refuses a password that breaks the rule of service.md (Invitation flow), and says what it lacks. */
export function requireStrongPassword(password: string, param: 'password' | 'new_password'): void {
  const lacks = passwordLacks(password);
  if (lacks.length === 0) return;
  throw invalidRequest(param, `The password is too weak: it needs ${listed.format(lacks)}.`, 'weak_password');
}
