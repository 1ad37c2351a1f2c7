/** The questions for leases that are being decided, so that whoever gives a lease up is not overtaken by its grant. */
export class PendingLeases {
  readonly #pending = new Set<{ ids: ReadonlySet<string>; decided: Promise<unknown> }>();

  /** Decides a question for leases with these ids, in lower case. */
  async during<Answer>(ids: readonly string[], decide: () => Promise<Answer>): Promise<Answer> {
    const decided = decide();
    const question = { ids: new Set(ids), decided };
    this.#pending.add(question);
    try {
      return await decided;
    } finally {
      this.#pending.delete(question);
    }
  }

  /** Resolves once every question for one of these leases is decided, be it refused. */
  async decided(ids: readonly string[]): Promise<void> {
    const questions = [...this.#pending].filter((question) => ids.some((id) => question.ids.has(id)));
    await Promise.allSettled(questions.map(({ decided }) => decided));
  }
}
