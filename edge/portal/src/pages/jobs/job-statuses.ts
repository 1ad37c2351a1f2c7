/** In the order of a job's life, as people read them. */
export const jobStatusNames = {
  queued: 'Queued',
  in_progress: 'In progress',
  completed: 'Completed',
  failed: 'Failed',
  cancelled: 'Cancelled',
} as const;

/** For a filter of jobs. */
export const jobStatusChoices = [
  { value: '', label: 'Any status' },
  ...Object.entries(jobStatusNames).map(([value, label]) => ({ value, label })),
];
