import { useApi, useClaims } from '../api/hooks.ts';
import type { Profile } from '../api/types.ts';
import { Icon } from '../ui/icons.tsx';
import { Menu } from '../ui/menu.tsx';
import { useToast } from '../ui/toast.tsx';
import { setTheme, useTheme } from './theme.ts';

const next = { system: 'light', light: 'dark', dark: 'system' } as const;
const names = { system: 'System', light: 'Light', dark: 'Dark' } as const;
const icons = { system: 'monitor', light: 'sun', dark: 'moon' } as const;

export function UserMenu({ profile }: { profile: Profile | undefined }) {
  const api = useApi();
  const claims = useClaims();
  const { complain } = useToast();
  const theme = useTheme();
  const name = [profile?.first_name, profile?.last_name].filter(Boolean).join(' ') || profile?.email || 'Account';
  return (
    <div className="border-t border-line p-2">
      <Menu
        align="start"
        label={
          <>
            <span className="block max-w-56 truncate font-medium">{name}</span>
            <span className="block max-w-56 truncate text-xs text-faint">{profile?.email}</span>
          </>
        }
        trigger={
          <button
            type="button"
            className="flex w-full items-center gap-2.5 rounded-md px-2 py-1.5 text-left text-sm hover:bg-sunken"
          >
            <span className="inline-flex size-7 shrink-0 items-center justify-center rounded-full bg-accent-soft text-xs font-semibold text-accent uppercase">
              {Array.from(name)[0]}
            </span>
            <span className="min-w-0 flex-1">
              <span className="block truncate leading-tight font-medium">{name}</span>
              <span className="block truncate text-xs leading-tight text-faint capitalize">{claims.role}</span>
            </span>
            <Icon name="more" className="text-faint" />
          </button>
        }
        items={[
          { label: 'Settings', icon: 'settings', href: '/settings' },
          { label: `Theme: ${names[theme]}`, icon: icons[theme], onSelect: () => setTheme(next[theme]) },
          'line',
          { label: 'Sign out', icon: 'out', onSelect: () => void api.signOut().catch(complain) },
        ]}
      />
    </div>
  );
}
