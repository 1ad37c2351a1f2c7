/**
 * How much may be on its way over one connection, in megabytes: as much as calls bring, which have limits of their own. Behind Node's 10
 * one large body, or a crowd of slow readers, has the other calls of its connection refused, or the connection broken.
 */
const maxSessionMemory = 1_000_000;

/** For both ends of the connections between processes. */
export const sessionOptions = { maxSessionMemory };
