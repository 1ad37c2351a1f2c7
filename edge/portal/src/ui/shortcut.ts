/** A keyboard shortcut, written as this platform's own programs write it. */
export const shortcut = (key: string): string =>
  /Mac|iPhone|iPad/.test(navigator.platform) ? `⌘${key}` : `Ctrl ${key}`;
