/** In the order of a job's life. */
export const jobStatuses = ['queued', 'in_progress', 'completed', 'failed', 'cancelled'] as const;
