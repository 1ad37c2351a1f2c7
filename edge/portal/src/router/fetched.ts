const pauseMs = 1000;

/**
 * Loads a file of the portal. In an outage it waits until the gateway answers, and then loads the address anew: browsers remember
 * that a file could not be fetched, and never ask for it again. A file that is missing although the gateway answers belongs to
 * an older portal, and is an error.
 */
export async function fetched<File>(load: () => Promise<File>): Promise<File> {
  try {
    return await load();
  } catch (error) {
    if (await answers()) throw error;
    do await new Promise((resolve) => setTimeout(resolve, pauseMs));
    while (!(await answers()));
    window.location.reload();
    return new Promise<File>(() => {});
  }
}

const answers = (): Promise<boolean> =>
  fetch('/healthz').then(
    () => true,
    () => false,
  );
