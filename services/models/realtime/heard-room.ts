import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { HeldBytes } from '#shared/held-bytes.ts';

/** The memory for the sound of utterances, from its arrival until an upstream has it, or they are transcribed or dropped. */
export class HeardRoom {
  readonly #bytesMax: number;
  readonly #onRefusal: () => void;
  readonly #held = new HeldBytes();

  constructor(bytesMax: number, onRefusal: () => void) {
    this.#bytesMax = bytesMax;
    this.#onRefusal = onRefusal;
  }

  /** A user's utterance holds `after` bytes instead of `before`. @throws GatewayError OVERLOADED when there is no room for more. */
  hold(userId: string, before: number, after: number): void {
    if (after > before && !this.#held.hasRoom(userId, after - before, this.#bytesMax)) {
      this.#onRefusal();
      throw gatewayError(ErrorReason.OVERLOADED, 'The gateway is overloaded. Try again shortly.', {
        internal: 'the utterances that wait for their transcripts have no room in memory for more sound',
      });
    }
    this.#held.add(userId, after - before);
  }
}
