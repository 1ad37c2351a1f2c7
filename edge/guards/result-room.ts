import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { HeldBytes } from '#shared/held-bytes.ts';

/** The share that one user may take. */
const userShare = 1 / 4;

/**
 * The memory that large job results may take while they are read and delivered; the short request for one does not show how much that is. A
 * result that would be the only one always has room, however large; the only one of its user has room if the memory as a whole does.
 */
export class ResultRoom {
  readonly #bytesMax: number;
  readonly #held = new HeldBytes();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /**
   * Takes room for a result of this many bytes; returns a function that gives it back. @throws GatewayError OVERLOADED when there is none.
   */
  take(userId: string, bytes: number): () => void {
    const held = this.#held;
    const ofUser = held.of(userId);
    const isTooMuch = held.total > 0 && held.total + bytes > this.#bytesMax;
    if (isTooMuch || (ofUser > 0 && ofUser + bytes > this.#bytesMax * userShare)) {
      throw gatewayError(
        ErrorReason.OVERLOADED,
        'Too many large job results are being read at once. Try again shortly.',
      );
    }
    held.add(userId, bytes);
    return () => held.add(userId, -bytes);
  }
}
