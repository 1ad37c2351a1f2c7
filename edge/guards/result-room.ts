import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { HeldBytes } from '#shared/held-bytes.ts';

/** The share that one user may have. */
const userShare = 1 / 4;

/**
 * The memory that large results of jobs may take while they are read, and while their clients take them: a request for one is short. A
 * result that would be the only one has room however large it is, and so has the only one of its user if there is room for it.
 */
export class ResultRoom {
  readonly #bytesMax: number;
  readonly #held = new HeldBytes();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Makes room for a result of so many bytes; answers how to give it back. @throws GatewayError OVERLOADED when there is none. */
  take(userId: string, bytes: number): () => void {
    const held = this.#held;
    const ofUser = held.of(userId);
    const isTooMuch = held.total > 0 && held.total + bytes > this.#bytesMax;
    if (isTooMuch || (ofUser > 0 && ofUser + bytes > this.#bytesMax * userShare)) {
      throw gatewayError(ErrorReason.OVERLOADED, 'Too many large results are being read. Try again shortly.');
    }
    held.add(userId, bytes);
    return () => held.add(userId, -bytes);
  }
}
