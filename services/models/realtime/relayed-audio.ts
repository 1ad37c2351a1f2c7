import { utteranceMsMin } from './backend.ts';

/** A commit of the client that the upstream has not answered, with the length of its audio. */
type Commit = { eventId: string; audioMs: number };

/**
 * Which of a relayed session's audio belongs to which item. An item has no more than was appended, and there are no more items than can have
 * been committed, whatever the upstream says. All lengths are in milliseconds.
 */
export class RelayedAudio {
  /** Audio since the last commit, for upstreams that do not say how long an item is. */
  #appendedMs = 0;
  /** In order. */
  readonly #commits: Commit[] = [];
  /** All audio appended, and how much of it belongs to no item yet. */
  #heardMs = 0;
  #unclaimedMs = 0;
  /** Whether the upstream detects speech, or did, and so commits by itself. */
  #isListenedTo = false;
  /** How often the client has committed, and how many items were begun. */
  #commitsSent = 0;
  #itemsBegun = 0;
  #isAppended = false;

  /** Whether the client has appended audio since its last commit. */
  get isAppended(): boolean {
    return this.#isAppended;
  }

  /** The number of the client's commits that the upstream has not answered. */
  get commitsWaiting(): number {
    return this.#commits.length;
  }

  /** The length of all audio appended. */
  get heardMs(): number {
    return this.#heardMs;
  }

  /** The client appends audio; `isListenedTo`: the upstream detects speech in it. */
  append(audioMs: number, isListenedTo: boolean): void {
    this.#appendedMs += audioMs;
    this.#heardMs += audioMs;
    this.#unclaimedMs += audioMs;
    this.#isListenedTo ||= isListenedTo;
    this.#isAppended = true;
  }

  /** The client commits what it has appended, by an event with this id. */
  commit(eventId: string): void {
    this.#commits.push({ eventId, audioMs: this.#appendedMs });
    this.#commitsSent += 1;
    this.#appendedMs = 0;
    this.#isAppended = false;
  }

  /** The client discards what it has appended. */
  clear(): void {
    this.#appendedMs = 0;
    this.#isAppended = false;
  }

  /** Whether an item that the upstream begins now can have been committed. */
  get mayBegin(): boolean {
    // One that the upstream commits by itself has at least some audio.
    const heard = this.#isListenedTo ? this.#heardMs / utteranceMsMin : 0;
    return this.#itemsBegun < this.#commitsSent + heard;
  }

  /** An item begins. */
  begin(): void {
    this.#itemsBegun += 1;
  }

  /** The audio of the upstream's next commit: that of the client's oldest commit, or all appended since, if the upstream commits by itself. */
  committed(): number {
    const ofClient = this.#commits.shift();
    if (ofClient !== undefined) return ofClient.audioMs;
    const audioMs = this.#appendedMs;
    this.#appendedMs = 0;
    return audioMs;
  }

  /** Assigns an item its audio, as far as that much was appended and belongs to no other; returns how much it got. */
  claim(audioMs: number): number {
    // The rest of a begun millisecond belongs to it.
    const claimed = Math.min(audioMs, Math.ceil(this.#unclaimedMs));
    this.#unclaimedMs = Math.max(0, this.#unclaimedMs - claimed);
    return claimed;
  }

  /**
   * The upstream has refused an event: a commit, if it names one or does not say which. The audio of that commit counts with the next one, so
   * that none goes unmetered in case something else was refused.
   */
  refused(eventId: string | null): void {
    const at = eventId === null ? 0 : this.#commits.findIndex((commit) => commit.eventId === eventId);
    if (at < 0) return;
    const [commit] = this.#commits.splice(at, 1);
    const next = this.#commits[at];
    const audioMs = commit?.audioMs ?? 0;
    if (next === undefined) this.#appendedMs += audioMs;
    else next.audioMs += audioMs;
  }
}
