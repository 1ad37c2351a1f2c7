import { DropdownMenu } from 'radix-ui';
import type { ReactNode } from 'react';
import { navigate } from '../router/router.ts';
import { classNames } from './class-names.ts';
import { Icon, type IconName } from './icons.tsx';

type MenuItem =
  | { label: string; icon?: IconName; danger?: boolean; onSelect: () => void }
  | { label: string; icon?: IconName; href: string }
  | 'line';

type MenuProps = { trigger: ReactNode; items: readonly MenuItem[]; align?: 'start' | 'end'; label?: ReactNode };

/** A menu below its button. It is not modal, so that Radix adds no style element (see dialog.tsx). */
export function Menu({ trigger, items, align = 'end', label }: MenuProps) {
  return (
    <DropdownMenu.Root modal={false}>
      <DropdownMenu.Trigger asChild>{trigger}</DropdownMenu.Trigger>
      <DropdownMenu.Portal>
        <DropdownMenu.Content
          align={align}
          sideOffset={4}
          collisionPadding={8}
          className="raised animate-appear z-60 min-w-44 rounded-lg bg-surface p-1"
        >
          {label !== undefined && <div className="border-b border-line px-2.5 pt-1.5 pb-2 text-sm">{label}</div>}
          {items.map((item, index) =>
            item === 'line' ? (
              // biome-ignore lint/suspicious/noArrayIndexKey: lines are all alike and never change places.
              <DropdownMenu.Separator key={index} className="my-1 border-t border-line" />
            ) : (
              <DropdownMenu.Item
                key={item.label}
                onSelect={() => ('href' in item ? navigate(item.href) : item.onSelect())}
                className={classNames(
                  'flex cursor-pointer items-center gap-2.5 rounded-md px-2.5 py-1.5 text-sm outline-none data-highlighted:bg-sunken',
                  'danger' in item && item.danger ? 'text-danger' : 'text-ink',
                )}
              >
                {item.icon !== undefined && <Icon name={item.icon} />}
                {item.label}
              </DropdownMenu.Item>
            ),
          )}
        </DropdownMenu.Content>
      </DropdownMenu.Portal>
    </DropdownMenu.Root>
  );
}
