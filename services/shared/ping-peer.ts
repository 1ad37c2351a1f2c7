/**
 * Pings the peer of a connection at intervals, in milliseconds. Calls `onSilent` when the next one is due and nothing has come from it, not
 * even its answer: where the network has lost it, nothing else would tell for a quarter of an hour. Returns a function that ends this.
 */
export function pingPeer(
  everyMs: number,
  peer: {
    /** Whether anything has come since this was last asked. */
    hasSpoken(): boolean;
    ping(): void;
    onSilent(): void;
  },
): () => void {
  let unread: NodeJS.Immediate | undefined;
  const pings = setInterval(() => {
    if (peer.hasSpoken()) {
      peer.ping();
      return;
    }
    // When a process stood still, its timers come before what was sent to it meanwhile is read.
    unread = setImmediate(() => (peer.hasSpoken() ? peer.ping() : peer.onSilent()));
  }, everyMs);
  return () => {
    clearInterval(pings);
    clearImmediate(unread);
  };
}
