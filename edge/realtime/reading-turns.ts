/** How much of one user's messages is read in a turn of the event loop, in bytes: one to two milliseconds of work. */
export const bytesPerTurn = 128 * 1024;
/** A connection that is read brings at least as much, if its client has sent it. */
const bytesPerReadMin = 64 * 1024;

/** A connection that can be left unread. */
export type Reader = { pause(): void; resume(): void };

type Turn = { bytesLeft: number; waiting: Set<Reader> };

/**
 * Reads the sessions of one user a little at a time: a turn of the event loop serves every connection on which something has come, and every
 * call waits for several turns. Nothing is slower for it while the loop has time: turns are short then.
 */
export class ReadingTurns {
  readonly #turns = new Map<string, Turn>();

  /** This many bytes have come from a user. Once too many have in this turn, the reader waits for a later one. */
  spend(userId: string, bytes: number, reader: Reader): void {
    let turn = this.#turns.get(userId);
    if (turn === undefined) {
      turn = { bytesLeft: bytesPerTurn, waiting: new Set() };
      this.#turns.set(userId, turn);
      setImmediate(this.#next, userId, turn);
    }
    turn.bytesLeft -= bytes;
    if (turn.bytesLeft > 0) return;
    reader.pause();
    turn.waiting.add(reader);
  }

  #next = (userId: string, turn: Turn): void => {
    if (turn.waiting.size === 0) {
      this.#turns.delete(userId);
      return;
    }
    turn.bytesLeft = bytesPerTurn;
    for (const reader of [...turn.waiting].slice(0, bytesPerTurn / bytesPerReadMin)) {
      turn.waiting.delete(reader);
      reader.resume();
    }
    setImmediate(this.#next, userId, turn);
  };
}
