/** What a client received of a call. */
export type Received = { status: number; requestId: string; bytes: Buffer; isWhole: boolean; hasLeft: boolean };

export const nothingYet = (): Received => ({
  status: 0,
  requestId: '',
  bytes: Buffer.alloc(0),
  isWhole: false,
  hasLeft: false,
});

type Leaving = {
  /** When the client leaves: once its upstream has the call, or after so many bytes of the answer; null: it stays. */
  leaves: 'asked' | number | null;
  /** Waits until the upstream has the call. */
  untilAsked: () => Promise<unknown>;
};

/** Makes a call and notes in `received`, as it comes, what its client gets. Rejects only if there is no answer. */
export async function receive(
  received: Received,
  url: string,
  init: RequestInit,
  { leaves, untilAsked }: Leaving,
): Promise<void> {
  const leaving = new AbortController();
  const leave = (): void => {
    received.hasLeft = true;
    leaving.abort();
  };
  if (leaves === 'asked') void untilAsked().then(leave, () => {});
  try {
    const response = await fetch(url, { method: 'POST', ...init, signal: leaving.signal });
    received.status = response.status;
    received.requestId = response.headers.get('x-request-id')!;
    for await (const piece of response.body!) {
      received.bytes = Buffer.concat([received.bytes, piece]);
      if (typeof leaves === 'number' && received.bytes.length >= leaves) leave();
    }
    received.isWhole = true;
  } catch (error) {
    // Only the answer may break off.
    if (!received.hasLeft && received.status === 0) throw error;
  }
}
