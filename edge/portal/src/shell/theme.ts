import { useSyncExternalStore } from 'react';

export type Theme = 'system' | 'light' | 'dark';

function current(): Theme {
  const theme = document.documentElement.dataset.theme;
  return theme === 'light' || theme === 'dark' ? theme : 'system';
}

const systemIsDark = window.matchMedia('(prefers-color-scheme: dark)');
/** Paper is white, whatever the theme (styles.css). */
const paper = window.matchMedia('print');

function subscribe(listener: () => void): () => void {
  // The choice may also change in another tab (public/theme.js).
  const choice = new MutationObserver(listener);
  choice.observe(document.documentElement, { attributeFilter: ['data-theme'] });
  for (const media of [systemIsDark, paper]) media.addEventListener('change', listener);
  return () => {
    choice.disconnect();
    for (const media of [systemIsDark, paper]) media.removeEventListener('change', listener);
  };
}

export const useTheme = (): Theme => useSyncExternalStore(subscribe, current);

/** Whether the page is dark now, by choice or by the system's setting, and not on paper: for what CSS does not reach, such as a canvas. */
export const useIsDark = (): boolean =>
  useSyncExternalStore(
    subscribe,
    () => !paper.matches && (current() === 'system' ? systemIsDark.matches : current() === 'dark'),
  );

/** Chooses a theme for this browser; public/theme.js applies it before the next first paint. */
export function setTheme(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === 'system') localStorage.removeItem('theme');
    else localStorage.setItem('theme', theme);
  } catch {
    // Storage is blocked: the choice lasts until the page is left.
  }
}
