const pauseMs = 1000;

/** The state of an address in the tab's history while it is loaded anew for a file that failed. */
const loadedAnew = 'loaded anew';

/**
 * Loads a file of the portal. Browsers remember that a file could not be fetched, and never ask for it again: when one fails, the
 * address is loaded anew as soon as the gateway answers. That also brings the portal's new files after an upgrade. A file that
 * fails once more, though the gateway answers, is an error.
 */
export async function fetched<File>(load: () => Promise<File>): Promise<File> {
  const before = window.history.state;
  if (before === loadedAnew) window.history.replaceState(null, '');
  try {
    return await load();
  } catch (error) {
    if (await answers()) {
      if (before === loadedAnew) throw error;
      window.history.replaceState(loadedAnew, '');
    } else {
      do await new Promise((resolve) => setTimeout(resolve, pauseMs));
      while (!(await answers()));
    }
    window.location.reload();
    return new Promise<File>(() => {});
  }
}

/** Whether the gateway answers, and not a proxy that cannot reach it: the tab would be loaded anew into its error page. */
const answers = (): Promise<boolean> =>
  fetch('/healthz').then(
    ({ status }) => status < 500,
    () => false,
  );
