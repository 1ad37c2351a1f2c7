const pauseMs = 1000;

/** The file of a page could not be loaded, as opposed to an error in the page itself. */
export class NotFetched extends Error {}

/** Marks an address in the tab's history that is being reloaded because a file failed to load. */
const loadedAnew = 'loaded anew';

/**
 * Loads a file of the portal. Browsers remember that a module could not be fetched and never ask for it again, so the page is reloaded as
 * soon as the gateway answers. After an upgrade, that also brings the portal's new files. If the file fails again although the gateway
 * answers, that is an error.
 */
export async function fetched<File>(load: () => Promise<File>): Promise<File> {
  const before = window.history.state;
  if (before === loadedAnew) window.history.replaceState(null, '');
  try {
    return await load();
  } catch (error) {
    if (await answers()) {
      if (before === loadedAnew) throw new NotFetched('The file of the page could not be loaded', { cause: error });
      window.history.replaceState(loadedAnew, '');
    } else {
      do await new Promise((resolve) => setTimeout(resolve, pauseMs));
      while (!(await answers()));
    }
    window.location.reload();
    return new Promise<File>(() => {});
  }
}

/** Whether the gateway itself answers, and not a proxy that cannot reach it: reloading would then show the proxy's error page. */
const answers = (): Promise<boolean> =>
  fetch('/healthz').then(
    ({ status }) => status < 500,
    () => false,
  );
