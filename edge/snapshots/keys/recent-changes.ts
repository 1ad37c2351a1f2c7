/** How many changes are remembered one by one. */
const rememberedMax = 10_000;

/**
 * The versions at which things changed lately. Keys may answer a look-up with data it read before a change that the feed has already
 * reported; such an answer must be neither believed nor cached.
 */
export class RecentChanges {
  readonly #versions = new Map<string, bigint>();
  #floor = 0n;

  /** The subject changed at this version. */
  note(subject: string, version: bigint): void {
    this.#versions.delete(subject);
    this.#versions.set(subject, version);
    if (this.#versions.size <= rememberedMax) return;
    const [oldest, oldestVersion] = this.#versions.entries().next().value!;
    this.#versions.delete(oldest);
    if (oldestVersion > this.#floor) this.#floor = oldestVersion;
  }

  /** Changes were missed: whatever was read before `version` is out of date. */
  reset(version: bigint): void {
    this.#versions.clear();
    this.#floor = version;
  }

  /** Whether an answer read at a version has the latest state of all its subjects. */
  isCurrent(version: bigint, subjects: readonly string[]): boolean {
    return version >= this.#floor && subjects.every((subject) => (this.#versions.get(subject) ?? 0n) <= version);
  }
}
