/** The most pending invitations of an organization. */
export const pendingInvitationsMax = 100;

/** The most invitations that an organization may send within an hour: each is a mail in the platform's name, to any address. */
export const hourlyInvitationsMax = 100;
const hourMs = 3_600_000;

/** An address is sent at most one invitation in this time, in milliseconds. */
const invitationIntervalMs = 60_000;

type Sent = { email: string; createdAt: Date };

/**
 * How long until an organization may send another invitation, in milliseconds; not positive when it may now. `latest` are its last
 * `hourlyInvitationsMax`, newest first, including those accepted or withdrawn since: their mails were sent.
 */
export const hourlyWaitMs = (latest: readonly Sent[], nowMs: number): number => {
  const oldest = latest[hourlyInvitationsMax - 1];
  return oldest === undefined ? 0 : oldest.createdAt.getTime() + hourMs - nowMs;
};

/** How long until an address may be sent another invitation, in milliseconds; not positive when it may now. `latest` is newest first. */
export const addressWaitMs = (latest: readonly Sent[], email: string, nowMs: number): number => {
  const last = latest.find((sent) => sent.email === email);
  return last === undefined ? 0 : last.createdAt.getTime() + invitationIntervalMs - nowMs;
};
