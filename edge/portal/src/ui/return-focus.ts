import { useRef } from 'react';

/** What has the focus, if anything has; for an item of a menu, which goes when it is chosen, the button of the menu. */
function focused(): HTMLElement | null {
  const active = document.activeElement === document.body ? null : (document.activeElement as HTMLElement | null);
  const menu = active?.closest('[role="menu"]');
  return menu == null ? active : document.getElementById(menu.getAttribute('aria-labelledby') ?? '');
}

/**
 * For a dialog without a trigger of Radix's, which would leave the focus nowhere: gives it back to what had it before the dialog opened,
 * and to the page's title where that is gone or nothing had it. What the act of the dialog moved the focus to keeps it.
 */
export function useReturnFocus(open: boolean): (event: Event) => void {
  const before = useRef<HTMLElement | null>(null);
  const wasOpen = useRef(false);
  // While it is drawn for the first time: a field inside takes the focus before any effect runs.
  if (open && !wasOpen.current) before.current = focused();
  wasOpen.current = open;
  return (event) => {
    event.preventDefault();
    if (document.activeElement !== null && document.activeElement !== document.body) return;
    const back = before.current?.isConnected ? before.current : document.querySelector('h1');
    back?.focus();
  };
}
