import { ErrorReason, gatewayError } from '#shared/errors.ts';

/** The share that one user may have. */
const userShare = 1 / 4;

/**
 * The memory that large results of jobs may take while they are read, and while their clients take them: a request for one is short. A
 * result that would be the only one has room however large it is, and so has the only one of its user if there is room for it.
 */
export class ResultRoom {
  readonly #bytesMax: number;
  readonly #ofUser = new Map<string, number>();
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Makes room for a result of so many bytes; answers how to give it back. @throws GatewayError OVERLOADED when there is none. */
  take(userId: string, bytes: number): () => void {
    const ofUser = this.#ofUser.get(userId) ?? 0;
    const isTooMuch = this.#bytes > 0 && this.#bytes + bytes > this.#bytesMax;
    if (isTooMuch || (ofUser > 0 && ofUser + bytes > this.#bytesMax * userShare)) {
      throw gatewayError(ErrorReason.OVERLOADED, 'Too many large results are being read. Try again shortly.');
    }
    this.#add(userId, bytes);
    return () => this.#add(userId, -bytes);
  }

  #add(userId: string, bytes: number): void {
    this.#bytes += bytes;
    const ofUser = (this.#ofUser.get(userId) ?? 0) + bytes;
    if (ofUser === 0) this.#ofUser.delete(userId);
    else this.#ofUser.set(userId, ofUser);
  }
}
