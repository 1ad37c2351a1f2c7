/** In the order of a job's life, in the words that people read. */
export const jobStatusNames = {
  queued: 'Queued',
  in_progress: 'In progress',
  completed: 'Completed',
  failed: 'Failed',
  cancelled: 'Cancelled',
} as const;

/** The choices of a job filter. */
export const jobStatusChoices = [
  { value: '', label: 'All statuses' },
  ...Object.entries(jobStatusNames).map(([value, label]) => ({ value, label })),
];
