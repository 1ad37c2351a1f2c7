export type Retirement = {
  deprecatedMs: number;
  sunsetMs: number | null;
  /** Null if a note says why there is none. */
  successor: string | null;
};
type Model = {
  isPublic: boolean;
  granted: Set<number>;
  /** Upstream names, with the ids of their deployments. */
  deployments: Map<string, string>;
  retirement: Retirement | null;
};

/** What a user sees under a model's name. */
export type Seen = {
  get: number;
  chat: number;
  /** The status of a chat with a key that has an allowlist. */
  chatByOther: number;
  isListed: boolean;
  /** In the list of retirements, and in the headers of each answer. */
  retirement: Retirement | null;
  /** Whether everyone can read the page of its retirement. */
  hasPage: boolean;
};

/** The catalog according to service.md and decisions.md. */
export class CatalogModel {
  nowMs = 0;
  readonly models = new Map<string, Model>();
  /** Empty means that every model is allowed. */
  allowlist: readonly string[] = [];

  create(name: string, isPublic: boolean): 201 | 409 {
    if (this.models.has(name)) return 409;
    this.models.set(name, { isPublic, granted: new Set(), deployments: new Map(), retirement: null });
    return 201;
  }

  /**
   * Changes a model, unless users of a retiring one would then be referred to a model that does not exist for them, or that is not their
   * own.
   */
  change(name: string, done: 200 | 201 | 204, work: (model: Model) => void): number {
    const model = this.models.get(name);
    if (model === undefined) return 404;
    const before = { ...model, granted: new Set(model.granted) };
    work(model);
    const isHidden = before.isPublic && !model.isPublic && model.retirement !== null;
    if (this.#isSound() && !isHidden) return done;
    this.models.set(name, before);
    return 409;
  }

  delete(name: string): number {
    const model = this.models.get(name);
    if (model === undefined) return 404;
    if (model.retirement !== null) return 409;
    this.models.delete(name);
    if (this.#isSound()) return 204;
    this.models.set(name, model);
    return 409;
  }

  announce(name: string, successor: string | null, sunsetMs: number | null): number {
    const model = this.models.get(name);
    if (model === undefined) return 404;
    if (model.retirement !== null) return 409;
    if (successor === name) return 400;
    const next = successor === null ? undefined : this.models.get(successor);
    if (successor !== null && !this.#isSandbox(successor) && (next === undefined || next.retirement !== null))
      return 400;
    model.retirement = { deprecatedMs: this.nowMs, sunsetMs, successor };
    if (this.#isSound()) return 201;
    model.retirement = null;
    return 400;
  }

  date(name: string, sunsetMs: number): number {
    const retirement = this.models.get(name)?.retirement;
    if (retirement == null) return 404;
    if (this.#isRetired(retirement)) return 409;
    if (sunsetMs <= this.nowMs) return 400;
    retirement.sunsetMs = sunsetMs;
    return 200;
  }

  withdraw(name: string): number {
    const model = this.models.get(name);
    if (model?.retirement == null) return 404;
    if (this.#isRetired(model.retirement)) return 409;
    model.retirement = null;
    return 204;
  }

  seen(name: string, organization: number): Seen {
    const model = this.models.get(name);
    const hasPage = model?.isPublic === true && model.retirement !== null;
    if (model === undefined || !(model.isPublic || model.granted.has(organization))) {
      return { get: 404, chat: 404, chatByOther: 404, isListed: false, retirement: null, hasPage };
    }
    const { retirement } = model;
    if (retirement !== null && this.#isRetired(retirement)) {
      return { get: 410, chat: 410, chatByOther: 410, isListed: false, retirement, hasPage };
    }
    const chat = model.deployments.size > 0 ? 200 : 503;
    const isAllowed = this.allowlist.length === 0 || this.allowlist.includes(name);
    return { get: 200, chat, chatByOther: isAllowed ? chat : 403, isListed: true, retirement, hasPage };
  }

  #isRetired({ sunsetMs }: Retirement): boolean {
    return sunsetMs !== null && this.nowMs >= sunsetMs;
  }

  #isSandbox(name: string): boolean {
    return name.startsWith('sandbox-');
  }

  /** Whether each successor exists for everyone for whom the retiring model does. */
  #isSound(): boolean {
    return [...this.models.values()].every(({ retirement, isPublic, granted }) => {
      if (retirement?.successor == null || this.#isSandbox(retirement.successor)) return true;
      const successor = this.models.get(retirement.successor);
      return successor !== undefined && (successor.isPublic || (!isPublic && granted.isSubsetOf(successor.granted)));
    });
  }
}
