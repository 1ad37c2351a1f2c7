const pattern = /^job_[0-9a-f]{32}$/;

/** A job's id as clients see it. */
export const publicJobId = (uuid: string): string => `job_${uuid.replaceAll('-', '')}`;

/** The UUID in a public id; null for anything else. */
export function parseJobId(text: string): string | null {
  if (!pattern.test(text)) return null;
  const hex = text.slice(4);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/**
 * The id (UUIDv7) of the usage event for a job's success: the time of its first start, and the random bits of the job's own id. It is the
 * same however often the job runs, so Usage keeps one event and Billing charges once.
 */
export function successEventId(jobId: string, startedMs: number): string {
  const time = startedMs.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}${jobId.slice(13)}`;
}
