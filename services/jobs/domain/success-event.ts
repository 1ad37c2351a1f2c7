/**
 * The id (UUIDv7) of the usage event for a job's success: the time of its first start, and the random bits of the job's own id. It is the
 * same however often the job runs, so Usage keeps one event and Billing charges once.
 */
export function successEventId(jobId: string, startedMs: number): string {
  const time = startedMs.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}${jobId.slice(13)}`;
}
