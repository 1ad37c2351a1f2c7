/** The channels by which Jobs notifies its workers. */
export const channels = {
  /** A job waits. */
  queued: 'jobs_queued',
  /** A job was cancelled: its id (UUID). */
  cancelled: 'jobs_cancelled',
} as const;
