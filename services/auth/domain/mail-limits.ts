/** The most invitations, and the most confirmations of new addresses, that an organization may have sent within an hour: to any address. */
export const hourlyMailsMax = 100;
/** The hour in milliseconds. What is older counts towards no limit. */
export const hourMs = 3_600_000;

/** An address is sent at most one such mail of an organization in this time, in milliseconds. */
const mailIntervalMs = 60_000;

type Sent = { email: string; createdAt: Date };

/**
 * How long until an organization may have another such mail sent, in milliseconds; not positive when it may now. `latest` are its last
 * `hourlyMailsMax`, newest first, including those used or withdrawn since: their mails were sent.
 */
export const hourlyWaitMs = (latest: readonly Sent[], nowMs: number): number => {
  const oldest = latest[hourlyMailsMax - 1];
  return oldest === undefined ? 0 : oldest.createdAt.getTime() + hourMs - nowMs;
};

/** How long until an address may be sent another such mail, in milliseconds; not positive when it may now. `latest` is newest first. */
export const addressWaitMs = (latest: readonly Sent[], email: string, nowMs: number): number => {
  const last = latest.find((sent) => sent.email === email);
  return last === undefined ? 0 : last.createdAt.getTime() + mailIntervalMs - nowMs;
};
