import { useMemo } from 'react';
import { comparable } from '#shared/comparable.ts';
import type { Claims } from '../api/client.ts';
import { useApi, useClaims, useGet } from '../api/hooks.ts';
import type { ApiKey, List, Member, Model } from '../api/types.ts';
import type { AdminKey, AdminOrganization, FoundInvoice } from '../pages/operator/types.ts';
import { navigate } from '../router/router.ts';
import type { IconName } from '../ui/icons.tsx';
import { useToast } from '../ui/toast.tsx';
import { navigationFor } from './navigation.ts';
import { setTheme } from './theme.ts';

export type Command = {
  id: string;
  name: string;
  detail: string;
  icon: IconName;
  /** By which it is found as well, though they are not shown. */
  words?: string;
  run: () => void;
};

export const shownMax = 12;
/** The most that the API lists at once. */
const listedMax = 100;

export const wordsIn = (text: string): readonly string[] => comparable(text).split(/\s+/).filter(Boolean);

/** What can be gone to or done. There may be thousands of keys and organizations, so only those that match the text are asked for. */
export function useCommands(text: string): readonly Command[] {
  const api = useApi();
  const { complain } = useToast();
  const claims = useClaims();
  // The API looks for its search as one piece. So it is asked for the longest word, and all of them are looked for in what it lists.
  const words = wordsIn(text);
  const longest = words.reduce((one, other) => (other.length > one.length ? other : one), '');
  const asked = { search: longest, limit: words.length > 1 ? listedMax : shownMax };
  const isAsked = longest.length > 1;
  const keys = useGet<List<ApiKey>>('/api-keys', asked, { enabled: isAsked });
  const ofAll = { enabled: isAsked && claims.operator };
  const organizations = useGet<List<AdminOrganization>>('/admin/organizations', asked, ofAll);
  const keysOfAll = useGet<List<AdminKey>>('/admin/keys', asked, ofAll);
  const people = useGet<List<Member>>(claims.operator ? '/admin/users' : '/members', asked, {
    enabled: isAsked && (claims.operator || claims.role !== 'member'),
  });
  const invoice = useGet<FoundInvoice>(`/admin/invoices/${text}`, undefined, {
    enabled: claims.operator && /^inv-?\d{6,18}$/i.test(text),
    keepPrevious: false,
  });
  // Of models the API looks for all words itself.
  const models = useGet<List<Model>>('/models', { search: text, limit: shownMax }, { enabled: isAsked });
  return useMemo(() => {
    const go = (href: string, shown: Omit<Command, 'run'>): Command => ({ ...shown, run: () => navigate(href) });
    return [
      ...navigationFor(claims).flatMap((group) =>
        group.items.map(({ href, name, icon, words }) => go(href, { id: href, name, detail: group.name, icon, words })),
      ),
      go('/keys?create=1', {
        id: 'create-key',
        name: 'Create an API key',
        detail: 'Action',
        icon: 'plus',
        words: 'new',
      }),
      go('/settings', {
        id: 'settings',
        name: 'Settings',
        detail: 'Account',
        icon: 'settings',
        words: 'profile email address password theme',
      }),
      { id: 'dark', name: 'Dark theme', detail: 'Action', icon: 'moon', run: () => setTheme('dark') },
      { id: 'light', name: 'Light theme', detail: 'Action', icon: 'sun', run: () => setTheme('light') },
      {
        id: 'out',
        name: 'Sign out',
        detail: 'Action',
        icon: 'out',
        words: 'log',
        run: () => void api.signOut().catch(complain),
      },
      ...(keys.data?.data ?? []).map(({ id, name, key_preview }) =>
        go(`/keys/${id}`, { id, name, detail: 'Key', icon: 'key', words: key_preview }),
      ),
      ...(models.data?.data ?? []).map(({ id, display_name }) =>
        go(`/models/${encodeURIComponent(id)}`, {
          id: `model ${id}`,
          name: display_name,
          detail: 'Model',
          icon: 'model',
          words: id,
        }),
      ),
      ...(organizations.data?.data ?? []).map(({ id, name }) =>
        go(`/operator/organizations/${id}`, { id, name, detail: 'Organization', icon: 'people', words: id }),
      ),
      ...(people.data?.data ?? []).map(({ id, tenant_id, email, first_name, last_name }) =>
        go(
          claims.operator
            ? `/operator/organizations/${tenant_id}?tab=members&search=${id}`
            : `/organization?search=${id}`,
          {
            id,
            name: email,
            detail: claims.operator ? 'User' : 'Member',
            icon: 'people',
            words: `${first_name} ${last_name} ${id}`,
          },
        ),
      ),
      ...(keysOfAll.data?.data ?? [])
        .filter(({ user_id }) => user_id !== claims.userId)
        .map(({ id, name, key_preview }) =>
          go(`/operator/keys?search=${encodeURIComponent(key_preview)}`, {
            id,
            name,
            detail: 'Key of a customer',
            icon: 'shield',
            words: key_preview,
          }),
        ),
      ...(invoice.data === undefined ? [] : [invoice.data]).map(({ id, tenant_id, number }) =>
        go(`/operator/organizations/${tenant_id}/invoices/${id}`, {
          id,
          name: `Invoice ${number}`,
          detail: 'Invoice of a customer',
          icon: 'card',
          words: text,
        }),
      ),
      ...byId(text, claims).map(({ href, ...shown }) => go(href, shown)),
    ];
  }, [
    api,
    complain,
    claims,
    text,
    keys.data,
    models.data,
    organizations.data,
    people.data,
    keysOfAll.data,
    invoice.data,
  ]);
}

/** What an id tells by how it begins: the calls of a request, or a job. */
function byId(text: string, { operator, role }: Claims): readonly (Omit<Command, 'run'> & { href: string })[] {
  if (/^req_\w+$/.test(text)) {
    const own = `/usage?by=request&search=${text}${role === 'member' ? '' : '&scope=tenant'}`;
    const href = operator ? `/operator/calls?search=${text}` : own;
    return [{ id: text, name: `Request ${text}`, detail: operator ? 'Calls' : 'Usage', icon: 'pulse', href }];
  }
  if (/^job_\w+$/.test(text)) {
    const href = operator ? `/operator/jobs?search=${text}` : `/jobs/${text}`;
    return [{ id: text, name: `Job ${text}`, detail: operator ? 'All jobs' : 'Jobs', icon: 'job', href }];
  }
  return [];
}
