import type { Caller, Outcome } from './acts.ts';

export type ModelJob = {
  id: string;
  /** Occurs in its request, and in no other job's. */
  mark: string;
  caller: Caller;
  /** Which of the successive keys it belongs to. */
  keyNumber: number;
  isPrivate: boolean;
  script: readonly Outcome[];
  /** How many of its calls were answered. */
  answered: number;
  /** Whether two workers had it at once: if both fail, each reports that. */
  isDoubled: boolean;
  /** Whether an answer that was lost has been charged. */
  isPaid: boolean;
  attempts: number;
  /** With a call in flight, between two calls, or over. */
  state: 'running' | 'waiting' | 'ended';
  status: 'queued' | 'in_progress' | 'completed' | 'failed' | 'cancelled';
  code: string | null;
  createdMs: number;
  dueMs: number;
  /** Only for an ended one. */
  expiresMs: number;
};

/** A request in the reports; one without cost may be reported twice. */
type Charge = { success: boolean; costUsd: number; code: string | null; mayBeTwo: boolean };

const attemptsMax = 6;
const second = 1_000;
const day = 24 * 3_600 * second;

/** The largest cost of a call and its actual cost, in micro-USD: see `prices`. */
const heldMicroUsd = 10_000;
const costMicroUsd = 5_000;
export const terms = {
  creditUsd: 1_000,
  capUsd: 0.01,
  maxTokens: 1_000,
  tokens: 500,
  usdPerMillionTokens: 10,
  retryAfterSeconds: 30,
};

/** Jobs and their money according to openai-contract.md (section 6) and decisions.md. */
export class JobsModel {
  nowMs = 0;
  jobs: ModelJob[] = [];
  keyNumber = 0;
  hasScope = true;
  isSuspended = false;
  readonly granted = { owner: true, guest: true };
  /** When the private model retires. */
  sunsetMs = Number.POSITIVE_INFINITY;
  /** Of the current key. Its day does not end: Billing uses its database's clock, which is not moved. */
  spentMicroUsd = 0;
  readonly charges = { owner: [] as Charge[], guest: [] as Charge[] };
  /** What was charged, without what was given back. */
  readonly paidMicroUsd = { owner: 0, guest: 0 };

  /** The answer to a submission: the status and the code of the refusal. */
  submitted(caller: Caller, isPrivate: boolean): [status: number, code: string | null] {
    const refusal = this.#refusal(caller, this.keyNumber, isPrivate);
    if (refusal !== null) return [statuses[refusal]!, refusal];
    // The last one may exceed it.
    if (caller === 'key' && this.#takenMicroUsd() >= terms.capUsd * 1e6) return [429, 'spend_cap_exceeded'];
    return [202, null];
  }

  add(job: Pick<ModelJob, 'id' | 'mark' | 'caller' | 'isPrivate' | 'script'>): void {
    const state = { state: 'running', status: 'in_progress', code: null } as const;
    const times = { createdMs: this.nowMs, dueMs: 0, expiresMs: Number.POSITIVE_INFINITY };
    this.jobs.unshift({
      ...job,
      ...state,
      ...times,
      keyNumber: this.keyNumber,
      answered: 0,
      attempts: 1,
      isDoubled: false,
      isPaid: false,
    });
  }

  outcomeOf({ script, answered }: ModelJob): Outcome {
    return script[answered] ?? 'ok';
  }

  /** The upstream answers a job's call. */
  answer(job: ModelJob): void {
    const outcome = this.outcomeOf(job);
    job.answered += 1;
    if (outcome === 'away' && job.attempts < attemptsMax) {
      Object.assign(job, { state: 'waiting', status: 'queued', dueMs: this.nowMs + terms.retryAfterSeconds * second });
      return;
    }
    const code = codes[outcome];
    if (outcome === 'ok') this.#charge(job);
    else this.charges[ownerOf(job.caller)].push({ success: false, costUsd: 0, code, mayBeTwo: job.isDoubled });
    this.#end(job, outcome === 'ok' ? 'completed' : 'failed', code);
  }

  /** The upstream answers a job's call with success, but the answer is lost with its worker; another one runs the job. */
  lose(job: ModelJob): void {
    job.answered += 1;
    this.#charge(job);
    job.isPaid = true;
    this.#run(job, 1);
  }

  /** However often its call succeeds, a job is charged once. */
  #charge(job: ModelJob): void {
    if (job.isPaid) return;
    const owner = ownerOf(job.caller);
    this.charges[owner].push({ success: true, costUsd: costMicroUsd / 1e6, code: null, mayBeTwo: false });
    this.paidMicroUsd[owner] += costMicroUsd;
    if (job.caller === 'key' && job.keyNumber === this.keyNumber) this.spentMicroUsd += costMicroUsd;
  }

  cancel(job: ModelJob): void {
    if (job.state !== 'ended') this.#end(job, 'cancelled', null);
  }

  delete(job: ModelJob): 204 | 409 {
    if (job.state !== 'ended') return 409;
    this.jobs = this.jobs.filter((one) => one !== job);
    return 204;
  }

  wait(ms: number): void {
    this.nowMs += ms;
    this.jobs = this.jobs.filter(({ expiresMs }) => expiresMs > this.nowMs);
    for (const job of this.jobs) if (job.state === 'waiting' && job.dueMs <= this.nowMs) this.#run(job, 1);
  }

  /** The workers stop running their jobs, and have said so or not. */
  runAgain(isSaid: boolean): void {
    for (const job of this.jobs) {
      if (job.state !== 'running') continue;
      job.isDoubled ||= !isSaid;
      this.#run(job, isSaid ? 0 : 1);
    }
  }

  renewKey(): void {
    this.keyNumber += 1;
    this.hasScope = true;
    this.spentMicroUsd = 0;
  }

  #run(job: ModelJob, attempts: number): void {
    job.attempts += attempts;
    const isLate = this.nowMs >= job.createdMs + day;
    const over = isLate ? 'deadline_exceeded' : job.attempts > attemptsMax ? 'internal_error' : null;
    const refusal = over ?? this.#refusal(job.caller, job.keyNumber, job.isPrivate);
    if (refusal !== null) this.#end(job, 'failed', refusal);
    else Object.assign(job, { state: 'running', status: 'in_progress' });
  }

  #refusal(caller: Caller, keyNumber: number, isPrivate: boolean): string | null {
    if (caller === 'key' && keyNumber !== this.keyNumber) return 'invalid_api_key';
    if (caller === 'key' && !this.hasScope) return 'missing_scope';
    if (caller === 'guest' && this.isSuspended) return 'tenant_suspended';
    if (!isPrivate) return null;
    if (!this.granted[ownerOf(caller)]) return 'model_not_found';
    return this.isRetired ? 'model_sunset' : null;
  }

  get isRetired(): boolean {
    return this.nowMs >= this.sunsetMs;
  }

  #end(job: ModelJob, status: ModelJob['status'], code: string | null): void {
    // Limits still count it.
    if (job.isPaid && status !== 'completed') this.paidMicroUsd[ownerOf(job.caller)] -= costMicroUsd;
    Object.assign(job, { state: 'ended', status, code, expiresMs: this.nowMs + day });
  }

  /** What is spent, and what jobs that have not ended hold. */
  #takenMicroUsd(): number {
    const isHolding = ({ caller, keyNumber, state, isPaid }: ModelJob) =>
      caller === 'key' && keyNumber === this.keyNumber && state !== 'ended' && !isPaid;
    return this.spentMicroUsd + this.jobs.filter(isHolding).length * heldMicroUsd;
  }
}

export const ownerOf = (caller: Caller) => (caller === 'guest' ? 'guest' : 'owner');

const codes: Readonly<Record<Outcome, string | null>> = {
  ok: null,
  refused: 'context_length_exceeded',
  away: 'overloaded',
};
const statuses: Readonly<Record<string, number>> = {
  missing_scope: 403,
  tenant_suspended: 403,
  model_not_found: 404,
  model_sunset: 410,
};
