/** How a model misbehaves, for trying, testing and load. Without knobs it answers at once and never fails. */
export type ModelKnobs = {
  /** Milliseconds until the response head. */
  latencyMs?: number;
  /** Milliseconds between two pieces of a body. */
  chunkDelayMs?: number;
  /** The share of requests that fail, 0 to 1. They fail at even distances, not at random: 0.25 fails each fourth. */
  errorRate?: number;
  /** What a failure is: a status with an error body (500 when absent), or no answer at all. */
  errorStatus?: number | 'refused' | 'reset';
  /** Ends a body early, after so many pieces. */
  cutAfterChunks?: number;
  /** How a cut looks: a broken connection (when absent), or an end that pretends to be complete. */
  cutKind?: 'reset' | 'end';
};

/** Knobs for all models, and for single ones by their id; those replace the general ones knob by knob. */
export type SandboxKnobs = ModelKnobs & { models?: Readonly<Record<string, ModelKnobs>> };

/** Finds a model's knobs, and which of its requests fail. */
export type KnobBoard = {
  of(model: string | undefined): ModelKnobs;
  /** Counts a request of the model; true when it is one that fails. */
  failsNow(model: string): boolean;
};

export function knobBoard({ models = {}, ...general }: SandboxKnobs): KnobBoard {
  const merged = new Map(Object.entries(models).map(([id, knobs]) => [id, { ...general, ...knobs }]));
  const of = (model: string | undefined): ModelKnobs =>
    model === undefined ? general : (merged.get(model) ?? general);
  const debts = new Map<string, number>();
  return {
    of,
    failsNow(model) {
      const rate = of(model).errorRate ?? 0;
      if (rate <= 0) return false;
      const debt = (debts.get(model) ?? 0) + rate;
      // 0.1 + … + 0.1 is a little less than 1.
      const fails = debt > 1 - 1e-9;
      debts.set(model, fails ? debt - 1 : debt);
      return fails;
    },
  };
}
