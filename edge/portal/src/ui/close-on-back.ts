import { useEffect, useEffectEvent } from 'react';

/**
 * Back, which on a phone is a swipe or a button, first does `close` to what is open over a page, as in an app, and leaves the page only
 * then. A browser lets this happen once for each time that its user presses something; one without the Navigation API never.
 */
export function useCloseOnBack(open: boolean, close: () => void): void {
  const stay = useEffectEvent((event: NavigateEvent) => {
    if (event.navigationType !== 'traverse' || !event.cancelable) return;
    event.preventDefault();
    close();
  });
  useEffect(() => {
    if (!open || !('navigation' in window)) return;
    const listener = (event: NavigateEvent) => stay(event);
    navigation.addEventListener('navigate', listener);
    return () => navigation.removeEventListener('navigate', listener);
  }, [open]);
}
