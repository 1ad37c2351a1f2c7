import { KeyType } from '#gen/modelgateway/keys/v1/key_pb.ts';
import { invalidRequest, invalidValue } from '#shared/errors.ts';
import { allowedScopes, defaultScopes, type KeyType as KeyTypeName } from '#shared/scopes.ts';

/** The key type's name in the public API; an unspecified type is inference (service.md, API key, rule 6). */
export const keyTypeName = (type: KeyType): KeyTypeName => (type === KeyType.MANAGEMENT ? 'management' : 'inference');

/**
 * The scopes of a new key: those asked for, or the default set of its type. Unknown scopes and those of the other type are refused by name;
 * retired names stay as given (decisions.md, Keys).
 *
 * @param mayReadBreakdown whether the default set includes `usage:read_breakdown`: for admins and owners.
 */
export function chooseScopes(
  type: KeyTypeName,
  asked: readonly string[] | undefined,
  mayReadBreakdown: boolean,
): string[] {
  return asked === undefined ? [...defaultScopes(type, mayReadBreakdown)] : checkScopes(type, asked);
}

/** Checks the scopes asked for; repeats count once. */
export function checkScopes(type: KeyTypeName, asked: readonly string[]): string[] {
  if (asked.length === 0) throw invalidRequest('scopes', 'A key needs at least one scope.', 'invalid_value');
  const allowed: readonly string[] = allowedScopes(type);
  const refused = asked.filter((scope) => !allowed.includes(scope));
  if (refused.length > 0) {
    const article = type === 'inference' ? 'an inference' : 'a management';
    throw invalidValue('scopes', `${refused.map(quoted).join(', ')} cannot be given to ${article} key`);
  }
  return [...new Set(asked)];
}

const quoted = (text: string): string => `\`${text.replace(/[^\x20-\x7e]/g, '?')}\``;
