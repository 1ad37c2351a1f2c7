const pauseMs = 1000;

/**
 * Loads a file of the portal. While the gateway is out of reach it is asked for again, so that a page which was opened in an
 * outage comes when that is over; a file that is missing although the gateway answers belongs to an older portal.
 */
export async function fetched<File>(load: () => Promise<File>): Promise<File> {
  for (let reached = false; ; ) {
    try {
      return await load();
    } catch (error) {
      // The gateway may have come back between the two: one more try before giving up.
      if (reached) throw error;
      reached = await answers();
      if (!reached) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}

const answers = (): Promise<boolean> =>
  fetch('/healthz').then(
    () => true,
    () => false,
  );
