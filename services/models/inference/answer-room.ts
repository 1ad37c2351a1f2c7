import { countedBytes, HeldBytes } from '#shared/held-bytes.ts';

/**
 * The memory for answers that are given whole, and for the events of streams, from their first byte until their callers have taken them.
 * None is refused, since its upstream has to be paid: an answer that finds no room waits, and its upstream with it. The one that came first
 * may always go on, so that it ends and makes room for the next. Small answers are not counted, and never wait.
 */
export class AnswerRoom {
  readonly #bytesMax: number;
  readonly #held = new HeldBytes();
  /** The counted ones, in order of arrival. */
  readonly #shares = new Set<AnswerShare>();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Sets how many bytes of an answer are held: 0 once the caller has them, or will not get them. */
  hold(share: AnswerShare, bytes: number): void {
    const before = countedBytes(share.bytes);
    const after = countedBytes(bytes);
    share.bytes = bytes;
    if (after === before) return;
    if (after > 0) this.#shares.add(share);
    else this.#shares.delete(share);
    this.#held.add(share.userId, after - before);
    if (after < before) for (const { wake } of this.#shares) wake();
  }

  /** Whether there is room for more of an answer. If not, `wake` is called when there may be some. */
  hasRoom(share: AnswerShare): boolean {
    if (countedBytes(share.bytes) === 0) return true;
    const [first] = this.#shares;
    return share === first || this.#held.hasRoom(share.userId, 0, this.#bytesMax);
  }
}

/** What one answer holds. */
export type AnswerShare = { readonly userId: string; bytes: number; wake(): void };
