/**
 * How much may be in transit over one connection, in megabytes: no limit, since calls have their own. With Node's 10, one large body or a
 * crowd of slow readers makes the other calls of its connection fail, or breaks the connection.
 */
const maxSessionMemory = 1_000_000;

/** For both ends of the connections between processes. */
export const sessionOptions = { maxSessionMemory };
