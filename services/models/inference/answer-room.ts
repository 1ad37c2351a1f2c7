import { countedBytesMin, HeldBytes } from '#shared/held-bytes.ts';

/**
 * The memory of answers that are given whole, from their first byte until their callers have taken them. None is refused, since its
 * upstream has to be paid: an answer that finds no room waits, and its upstream with it. The one that came first may always go on, so that
 * it ends and makes room for the next. Small answers are not counted, and never wait.
 */
export class AnswerRoom {
  readonly #bytesMax: number;
  readonly #held = new HeldBytes();
  /** The counted ones, in order of arrival. */
  readonly #shares = new Set<AnswerShare>();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Counts more bytes of an answer. */
  add(share: AnswerShare, bytes: number): void {
    share.bytes += bytes;
    if (share.bytes <= countedBytesMin) return;
    const isNew = !this.#shares.has(share);
    this.#shares.add(share);
    this.#held.add(share.userId, isNew ? share.bytes : bytes);
  }

  /** Whether there is room for more of an answer. If not, `wake` is called when there may be some. */
  hasRoom(share: AnswerShare): boolean {
    const [first] = this.#shares;
    if (!this.#shares.has(share) || share === first) return true;
    return this.#held.hasRoom(share.userId, 0, this.#bytesMax);
  }

  /** The caller has the answer, or will not get it. */
  giveBack(share: AnswerShare): void {
    if (!this.#shares.delete(share)) return;
    this.#held.add(share.userId, -share.bytes);
    for (const { wake } of this.#shares) wake();
  }
}

/** What one answer holds. */
export type AnswerShare = { readonly userId: string; bytes: number; wake(): void };
