import { Dialog as Radix } from 'radix-ui';
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from 'react';
import { comparable } from '#shared/comparable.ts';
import { useApi, useClaims, useGet } from '../api/hooks.ts';
import type { ApiKey, List, Model } from '../api/types.ts';
import type { AdminOrganization } from '../pages/operator/types.ts';
import { navigate } from '../router/router.ts';
import { classNames } from '../ui/class-names.ts';
import { useCloseOnBack } from '../ui/close-on-back.ts';
import { Icon, type IconName } from '../ui/icons.tsx';
import { useReturnFocus } from '../ui/return-focus.ts';
import { withoutSecret } from '../ui/search-box.tsx';
import { useToast } from '../ui/toast.tsx';
import { navigationFor } from './navigation.ts';
import { setTheme } from './theme.ts';

type Command = {
  id: string;
  name: string;
  detail: string;
  icon: IconName;
  /** By which it is found as well, though they are not shown. */
  words?: string;
  run: () => void;
};

const shownMax = 12;
/** The most that the API lists at once. */
const listedMax = 100;

const wordsIn = (text: string): readonly string[] => comparable(text).split(/\s+/).filter(Boolean);

/** Finds pages, keys, models, actions and, for operators, organizations by a few letters. Opened with Ctrl K or ⌘ K. */
export function Palette({ open, onClose }: { open: boolean; onClose: () => void }) {
  const returnFocus = useReturnFocus(open);
  useCloseOnBack(open, onClose);
  return (
    <Radix.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <div data-scroll-lock className="fixed inset-0 z-40 bg-scrim" />
        <Radix.Content
          aria-describedby={undefined}
          onCloseAutoFocus={returnFocus}
          className="raised fixed top-[10dvh] left-1/2 z-50 w-[calc(100vw-2rem)] max-w-xl -translate-x-1/2 overflow-hidden rounded-xl bg-surface"
        >
          <Radix.Title className="sr-only">Go to</Radix.Title>
          <Search onClose={onClose} />
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

function Search({ onClose }: { onClose: () => void }) {
  const { operator } = useClaims();
  const [text, setText] = useState('');
  const [chosen, setChosen] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const commands = useCommands(text.trim());
  const found = useMemo(() => {
    const words = wordsIn(text);
    return commands
      .filter(({ name, detail, words: more = '' }) => {
        const all = comparable(`${name} ${detail} ${more}`);
        return words.every((word) => all.includes(word));
      })
      .slice(0, shownMax);
  }, [commands, text]);
  useEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  const run = (command: Command | undefined) => {
    if (command === undefined) return;
    onClose();
    command.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // These keys then choose among the words that an input method offers.
    if (event.nativeEvent.isComposing) return;
    if (event.key === 'ArrowDown') setChosen((at) => Math.min(at + 1, found.length - 1));
    else if (event.key === 'ArrowUp') setChosen((at) => Math.max(at - 1, 0));
    else if (event.key === 'Enter') run(found[chosen]);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <div className="flex items-center gap-2.5 border-b border-line px-4">
        <Icon name="search" className="text-faint" />
        <input
          role="combobox"
          aria-label={`Go to ${operator ? 'a page, key, model or organization' : 'a page, key or model'}`}
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={found[chosen] === undefined ? undefined : `palette-${chosen}`}
          placeholder={operator ? 'Page, key, model, organization or action' : 'Page, key, model or action'}
          value={text}
          onChange={(event) => {
            setText(withoutSecret(event.target.value));
            setChosen(0);
          }}
          onKeyDown={onKeyDown}
          className="h-12 w-full bg-transparent text-base outline-none"
        />
      </div>
      <div
        ref={list}
        id="palette-list"
        role="listbox"
        aria-label="Results"
        className="max-h-[50dvh] overflow-y-auto p-1.5"
      >
        {found.map((command, index) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents lint/a11y/useFocusableInteractive: the combobox keeps the focus and handles the keys.
          <div
            key={command.id}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === chosen}
            onMouseMove={() => setChosen(index)}
            onClick={() => run(command)}
            className={classNames(
              'flex cursor-pointer items-center gap-3 rounded-md px-3 py-2 text-sm',
              index === chosen && 'bg-sunken',
            )}
          >
            <Icon name={command.icon} className="size-4 text-soft" />
            <span className="min-w-0 flex-1 truncate">{command.name}</span>
            <span className="text-xs text-faint">{command.detail}</span>
          </div>
        ))}
      </div>
      {found.length === 0 && <p className="px-4 pb-4 text-sm text-faint">No results.</p>}
    </>
  );
}

/** What can be gone to or done. There may be thousands of keys and organizations, so only those that match the text are asked for. */
function useCommands(text: string): readonly Command[] {
  const api = useApi();
  const { complain } = useToast();
  const claims = useClaims();
  // The API looks for its search as one piece. So it is asked for the longest word, and all of them are looked for in what it lists.
  const words = wordsIn(text);
  const longest = words.reduce((one, other) => (other.length > one.length ? other : one), '');
  const asked = { search: longest, limit: words.length > 1 ? listedMax : shownMax };
  const keys = useGet<List<ApiKey>>('/api-keys', asked, { enabled: longest.length > 1 });
  // Of models the API looks for all words itself.
  const models = useGet<List<Model>>('/models', { search: text, limit: shownMax }, { enabled: longest.length > 1 });
  const organizations = useGet<List<AdminOrganization>>('/admin/organizations', asked, {
    enabled: claims.operator && longest.length > 1,
  });
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
        go(`/operator/organizations/${id}`, { id, name, detail: 'Organization', icon: 'people' }),
      ),
    ];
  }, [api, complain, claims, keys.data, models.data, organizations.data]);
}
