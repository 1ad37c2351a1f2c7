import { useRef } from 'react';

/** The focused element, if any. For a menu item, which disappears when chosen, the menu's button. */
function focused(): HTMLElement | null {
  const active = document.activeElement === document.body ? null : (document.activeElement as HTMLElement | null);
  const menu = active?.closest('[role="menu"]');
  return menu == null ? active : document.getElementById(menu.getAttribute('aria-labelledby') ?? '');
}

/**
 * For dialogs without a Radix trigger, after which the focus would be lost: returns it to the element that had it before the dialog opened,
 * or to the page's title if that element is gone or there was none. If the dialog's action moved the focus elsewhere, it stays there.
 */
export function useReturnFocus(open: boolean): (event: Event) => void {
  const before = useRef<HTMLElement | null>(null);
  const wasOpen = useRef(false);
  // During the first render, because a field inside takes the focus before any effect runs.
  if (open && !wasOpen.current) before.current = focused();
  wasOpen.current = open;
  return (event) => {
    event.preventDefault();
    if (document.activeElement !== null && document.activeElement !== document.body) return;
    const back = before.current?.isConnected ? before.current : document.querySelector('h1');
    back?.focus();
  };
}
