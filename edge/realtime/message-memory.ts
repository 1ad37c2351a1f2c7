import { countedBytes } from '#shared/held-bytes.ts';
import type { BodyRoom } from '../guards/body-room.ts';

/** The share of one session's messages in the memory for request bodies. Small messages are not counted. */
export class MessageMemory {
  readonly #room: BodyRoom;
  readonly #userId: string;
  #counted = 0;

  constructor(room: BodyRoom, userId: string) {
    this.#room = room;
    this.#userId = userId;
  }

  /** Sets how many bytes the session holds; false when there is no room for them. */
  hold(bytes: number): boolean {
    const counted = countedBytes(bytes);
    const more = counted - this.#counted;
    if (more > 0 && !this.#room.take(this.#userId, more)) return false;
    if (more < 0) this.#room.giveBack(this.#userId, -more);
    this.#counted = counted;
    return true;
  }
}
