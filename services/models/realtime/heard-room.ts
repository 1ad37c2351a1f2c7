import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { HeldBytes } from '#shared/held-bytes.ts';

/** The memory for the sound of utterances, from its arrival until they are transcribed or dropped. */
export class HeardRoom {
  readonly #bytesMax: number;
  readonly #held = new HeldBytes();

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Takes room for this many bytes of a user's. @throws GatewayError OVERLOADED when there is none. */
  take(userId: string, bytes: number): void {
    if (!this.#held.hasRoom(userId, bytes, this.#bytesMax)) {
      throw gatewayError(ErrorReason.OVERLOADED, 'The gateway is overloaded. Try again shortly.', {
        internal: 'the utterances that wait for their transcripts have no room in memory for more sound',
      });
    }
    this.#held.add(userId, bytes);
  }

  giveBack(userId: string, bytes: number): void {
    this.#held.add(userId, -bytes);
  }
}
