/** The waiting jobs of one caller for one model. */
export type Lane = { tenantId: string; subjectId: string; model: string };

/** What a worker may choose. */
export type Allowance = {
  slots: number;
  /** How many jobs may run at the same time, whatever the number of workers. */
  bounds: { perSubject: number; perModel: number };
  /** The most jobs of some models that may be chosen. */
  modelSlots: ReadonlyMap<string, number>;
  /** In [0, 1). */
  random(): number;
};

/** Jobs that run now. */
export type Running = { subjectId: string; model: string; count: number };

export type Choice = {
  lanes: (Lane & { slots: number })[];
  /** The organizations in the order of their last turn, which is also that of their next one. */
  served: string[];
  /** Whether a lane waits for running jobs of its caller or model to end. */
  isBounded: boolean;
};

/**
 * Distributes free slots among organizations, one each in turn, starting with the one that has waited longest (`lanes` are in this order);
 * within an organization its lanes take turns, in random order. Callers and models at their bounds are skipped, and a
 * model gets no more than `modelSlots` says, if it is listed there.
 */
export function chooseLanes(
  lanes: readonly Lane[],
  running: readonly Running[],
  { slots, bounds, modelSlots, random }: Allowance,
): Choice {
  const ofSubject = new Map<string, number>();
  const ofModel = new Map<string, number>();
  const add = (counts: Map<string, number>, key: string, count: number) =>
    counts.set(key, (counts.get(key) ?? 0) + count);
  for (const { subjectId, model, count } of running) {
    add(ofSubject, subjectId, count);
    add(ofModel, model, count);
  }
  const chosenOfModel = new Map<string, number>();
  const isFull = ({ subjectId, model }: Lane): boolean =>
    (ofSubject.get(subjectId) ?? 0) >= bounds.perSubject ||
    (ofModel.get(model) ?? 0) >= bounds.perModel ||
    (chosenOfModel.get(model) ?? 0) >= (modelSlots.get(model) ?? slots);

  const tenants = Map.groupBy(lanes, ({ tenantId }) => tenantId);
  const waiting = [...tenants.values()].map((ofTenant) => shuffled(ofTenant, random));
  const chosen = new Map<Lane, number>();
  const served = new Map<string, true>();
  let left = slots;
  let isBounded = false;
  while (left > 0 && waiting.length > 0) {
    const turn = waiting.shift()!;
    const lane = turn.shift()!;
    if (isFull(lane)) {
      isBounded = true;
      // It is still this organization's turn.
      if (turn.length > 0) waiting.unshift(turn);
      continue;
    }
    chosen.set(lane, (chosen.get(lane) ?? 0) + 1);
    add(ofSubject, lane.subjectId, 1);
    add(ofModel, lane.model, 1);
    add(chosenOfModel, lane.model, 1);
    left -= 1;
    served.delete(lane.tenantId);
    served.set(lane.tenantId, true);
    turn.push(lane);
    waiting.push(turn);
  }
  return {
    lanes: [...chosen].map(([lane, count]) => ({ ...lane, slots: count })),
    served: [...served.keys()],
    isBounded,
  };
}

function shuffled<Item>(items: readonly Item[], random: () => number): Item[] {
  const drawn = items.map((item) => ({ item, place: random() }));
  return drawn.sort((a, b) => a.place - b.place).map(({ item }) => item);
}
