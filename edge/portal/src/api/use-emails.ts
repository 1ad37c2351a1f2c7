import { useGet } from './hooks.ts';
import type { List, Member } from './types.ts';

/** The addresses of users by their ids, at most 100, once they are known: one request for all rows of a list. */
export function useEmails(ids: readonly string[], path = '/admin/users'): ReadonlyMap<string, string> {
  const asked = [...new Set(ids)].toSorted().join(',');
  const found = useGet<List<Member>>(path, { user_ids: asked, limit: 100 }, { enabled: asked !== '' });
  return new Map(found.data?.data.map(({ id, email }) => [id, email]));
}
