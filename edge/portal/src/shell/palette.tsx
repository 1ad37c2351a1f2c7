import { Dialog as Radix } from 'radix-ui';
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from 'react';
import { comparable } from '#shared/comparable.ts';
import { useClaims } from '../api/hooks.ts';
import { classNames } from '../ui/class-names.ts';
import { useCloseOnBack } from '../ui/close-on-back.ts';
import { Icon } from '../ui/icons.tsx';
import { useReturnFocus } from '../ui/return-focus.ts';
import { withoutSecret } from '../ui/search-box.tsx';
import { type Command, shownMax, useCommands, wordsIn } from './commands.ts';

/**
 * Finds pages, keys, models, people, actions and, for operators, organizations by a few letters, calls and jobs by their ids, and, for
 * operators, invoices by their numbers. Opened with Ctrl K or ⌘ K.
 */
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
  /** Which command is chosen; null for the first. More may be found meanwhile, and come before it. */
  const [chosenId, setChosenId] = useState<string | null>(null);
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
  const chosen = Math.max(
    0,
    found.findIndex(({ id }) => id === chosenId),
  );
  useEffect(() => {
    list.current?.children[chosen]?.scrollIntoView({ block: 'nearest' });
  }, [chosen]);
  const run = (command: Command | undefined) => {
    if (command === undefined) return;
    onClose();
    command.run();
  };
  const choose = (index: number) => setChosenId(found[index]?.id ?? chosenId);
  const onKeyDown = (event: KeyboardEvent) => {
    // These keys then choose among the words that an input method offers.
    if (event.nativeEvent.isComposing) return;
    if (event.key === 'ArrowDown') choose(chosen + 1);
    else if (event.key === 'ArrowUp') choose(chosen - 1);
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
          aria-label={`Go to ${operator ? 'a page, key, model, user or organization' : 'a page, key or model'}`}
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={found[chosen] === undefined ? undefined : `palette-${chosen}`}
          placeholder={operator ? 'Page, key, model, user, organization or id' : 'Page, key, model, action or id'}
          value={text}
          onChange={(event) => {
            setText(withoutSecret(event.target.value));
            setChosenId(null);
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
            onMouseMove={() => setChosenId(command.id)}
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
