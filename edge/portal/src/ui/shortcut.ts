/** The keys of a shortcut, as this machine's own programs name them. */
export const shortcut = (key: string): string =>
  /Mac|iPhone|iPad/.test(navigator.platform) ? `⌘${key}` : `Ctrl ${key}`;
