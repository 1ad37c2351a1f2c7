/** So many people an organization waits for at a time. */
export const pendingInvitationsMax = 100;

/** So many invitations an organization sends within an hour: each is a mail in the platform's name, to whatever address. */
export const hourlyInvitationsMax = 100;
const hourMs = 3_600_000;

/** An address is sent one invitation a minute at most, in milliseconds. */
export const invitationIntervalMs = 60_000;

type Sent = { email: string; createdAt: Date };

/**
 * How long until an organization may send one more invitation, in milliseconds; not positive when it may. `latest` are its last
 * `hourlyInvitationsMax`, newest first, those included that were accepted or withdrawn since: their mails were sent.
 */
export const hourlyWaitMs = (latest: readonly Sent[], nowMs: number): number => {
  const oldest = latest[hourlyInvitationsMax - 1];
  return oldest === undefined ? 0 : oldest.createdAt.getTime() + hourMs - nowMs;
};

/** How long until an address may be sent one more invitation, in milliseconds; not positive when it may. `latest` are newest first. */
export const addressWaitMs = (latest: readonly Sent[], email: string, nowMs: number): number => {
  const last = latest.find((sent) => sent.email === email);
  return last === undefined ? 0 : last.createdAt.getTime() + invitationIntervalMs - nowMs;
};
