/**
 * Billing of one organization according to the specification, in plain arithmetic: lists that are read from end to end, and none of the
 * product's code. All amounts are nano-USD, all times milliseconds. Acts that the product must refuse return false and change nothing.
 */
export class BillingModel {
  nowMs = 0;
  plan = { payg: true, creditNanoUsd: 0n, termsDays: 30 };
  capNanoUsd: bigint | null = null;
  limitNanoUsd: bigint | null = null;
  receivable = 0n;
  /** What was taken beyond all credit, and not made up for since. */
  owed = 0n;
  readonly lots: ModelLot[] = [];
  readonly commitments: ModelCommitment[] = [];
  readonly calls = new Map<string, ModelCall>();
  readonly invoices = new Map<string, ModelInvoice>();
  readonly transactions: ModelTransaction[] = [];
  readonly #creditedMonths = new Map<string, bigint>();

  /** What the operator's workers do, in the order in which the test runs them. */
  work(): void {
    for (const lot of this.lots) {
      if (lot.left === 0n || lot.expiresMs === null || lot.expiresMs > this.nowMs) continue;
      const amount = -lot.left;
      lot.expired = lot.left;
      lot.left = 0n;
      this.#note('expiry', amount, null);
    }
    for (const commitment of this.commitments) {
      if (commitment.left === 0n || commitment.endMs > this.nowMs) continue;
      const amount = -commitment.left;
      commitment.expired = commitment.left;
      commitment.left = 0n;
      this.#note('expiry', amount, null);
    }
    const month = monthOf(this.nowMs);
    const given = this.#creditedMonths.get(month) ?? 0n;
    if (this.plan.creditNanoUsd > given) {
      this.#creditedMonths.set(month, this.plan.creditNanoUsd);
      this.give('promotion', this.plan.creditNanoUsd - given, nextMonth(this.nowMs), 'grant', Date.parse(month));
    }
    for (const [of, invoice] of this.invoices) {
      if (invoice.status !== 'draft' || of >= monthOf(this.nowMs - hourMs)) continue;
      const total = invoice.subtotal - invoice.credits;
      invoice.status = 'finalized';
      invoice.dueDate = dayOf(this.nowMs + this.plan.termsDays * dayMs);
      invoice.isPaid = total === 0n;
      this.receivable += total;
    }
  }

  /** `startsMs`: the credit does not exist for calls made before this, however late they are charged. Returns the lot that holds it. */
  give(source: ModelLot['source'], amount: bigint, expiresMs: number | null, type: string, startsMs = 0): ModelLot {
    const left = amount > this.owed ? amount - this.owed : 0n;
    this.owed -= amount - left;
    const began = this.lots.find((lot) => source === 'adjustment' && lot.source === source && lot.left > 0n);
    const lot = began ?? { source, granted: 0n, left: 0n, expired: 0n, startsMs, expiresMs };
    if (began === undefined) this.lots.push(lot);
    lot.granted += amount;
    lot.left += left;
    this.#note(type, amount, null);
    return lot;
  }

  /** `first`: the lot that is drawn before the others. */
  take(amount: bigint, mayOwe: boolean, first: ModelLot | null = null): boolean {
    if (sum(this.wallet.map(({ left }) => left)) < amount && !mayOwe) return false;
    const isFirst = (lot: ModelLot) => lot === first;
    this.owed += this.#draw(amount, [...this.wallet.filter(isFirst), ...this.wallet.filter((lot) => !isFirst(lot))]);
    this.#note('adjustment', -amount, null);
    return true;
  }

  commit(amount: bigint, startMs: number, endMs: number): boolean {
    if (this.commitments.some((other) => other.startMs < endMs && other.endMs > Math.max(startMs, this.nowMs)))
      return false;
    this.commitments.push({ amount, left: amount, expired: 0n, consumed: 0n, startMs, endMs });
    return true;
  }

  endCommitment(startMs: number, endMs: number, nowMs: number): void {
    const of = this.commitments.find((one) => one.startMs === startMs && one.endMs === endMs && one.endMs > this.nowMs);
    if (of === undefined) return;
    of.endMs = nowMs;
    of.startMs = Math.min(of.startMs, nowMs);
  }

  /** Calls of one batch: Billing takes them in the order of their ids, each once, and pays them from what there was at their time. */
  charge(calls: readonly Omit<ModelCall, 'month' | 'payg' | 'refunded'>[]): void {
    for (const call of calls.toSorted((a, b) => (a.id < b.id ? -1 : 1))) {
      if (this.calls.has(call.id)) continue;
      const atMs = Math.min(call.atMs, this.nowMs);
      const own = monthOf(atMs);
      const isOpen = (this.invoices.get(own)?.status ?? 'draft') === 'draft';
      const month = isOpen ? own : monthOf(this.nowMs);
      const payg = this.#draw(call.cost, [...this.#commitmentsAt(atMs), ...this.#lotsAt(atMs)]);
      this.calls.set(call.id, { ...call, month, payg, refunded: 0n });
      if (call.cost === 0n) continue;
      const invoice = this.invoices.get(month) ?? newInvoice();
      this.invoices.set(month, invoice);
      invoice.subtotal += call.cost;
      invoice.credits += call.cost - payg;
      this.#note('usage', -call.cost, month);
    }
  }

  /** `amount` null means everything that is left. */
  refund(id: string, amount: bigint | null): boolean {
    const call = this.calls.get(id)!;
    const isVoided = this.invoices.get(call.month)!.status === 'voided';
    const left = call.cost - (isVoided ? call.payg : 0n) - call.refunded;
    const given = amount ?? left;
    if (given > left || given <= 0n) return false;
    call.refunded += given;
    this.give('adjustment', given, null, 'refund');
    return true;
  }

  /** An operator records that an invoice was paid, in whole cents; a repeat changes nothing. Returns the lot of credit for the excess. */
  pay(month: string): ModelLot | null | false {
    const invoice = this.invoices.get(month)!;
    if (invoice.status !== 'finalized') return false;
    const total = invoice.subtotal - invoice.credits;
    return invoice.isPaid ? null : this.receive(month, ((total + 9_999_999n) / 10_000_000n) * 10_000_000n);
  }

  /**
   * Money came in for an invoice: any excess over its total becomes credit, and so does a payment that does not cover it. Returns the lot of
   * that credit.
   */
  receive(month: string, amount: bigint): ModelLot | null {
    const invoice = this.invoices.get(month)!;
    const total = invoice.subtotal - invoice.credits;
    const covers = invoice.status === 'finalized' && !invoice.isPaid && amount >= total;
    if (covers) this.#settle(month, invoice);
    const rest = covers ? amount - total : amount;
    return rest > 0n ? this.give('purchase', rest, null, 'purchase') : null;
  }

  void(month: string): boolean {
    const invoice = this.invoices.get(month)!;
    const total = invoice.subtotal - invoice.credits;
    if (invoice.status === 'voided') return true;
    if (invoice.status === 'draft' || (invoice.isPaid && total > 0n)) return false;
    invoice.status = 'voided';
    invoice.isPaid = false;
    this.receivable -= total;
    if (total > 0n) this.#note('refund', total, month);
    return true;
  }

  /** What the wallet shows: lots with something left, in the order in which they are spent. */
  get wallet(): ModelLot[] {
    return this.#lotsAt(this.nowMs).filter(({ left }) => left > 0n);
  }

  get commitment(): ModelCommitment | null {
    return this.#commitmentsAt(this.nowMs)[0] ?? null;
  }

  /** Those that have started and not yet ended at a moment, in the order in which they are spent. */
  #lotsAt(atMs: number): ModelLot[] {
    const isPromotional = ({ source }: ModelLot) => source === 'promotion' || source === 'coupon';
    const until = ({ expiresMs }: ModelLot) => expiresMs ?? Number.MAX_SAFE_INTEGER;
    return this.lots
      .filter((lot) => lot.startsMs <= atMs && until(lot) > atMs)
      .sort((a, b) => Number(isPromotional(b)) - Number(isPromotional(a)) || until(a) - until(b));
  }

  #commitmentsAt(atMs: number): ModelCommitment[] {
    return this.commitments.filter(({ startMs, endMs }) => startMs <= atMs && endMs > atMs);
  }

  get paygSpent(): bigint {
    const month = monthOf(this.nowMs);
    return sum([...this.calls.values()].filter((call) => call.month === month).map(({ payg }) => payg));
  }

  spentToday(userId: string): bigint {
    const today = dayOf(this.nowMs);
    const calls = [...this.calls.values()].filter((call) => call.userId === userId && dayOf(call.atMs) === today);
    return sum(calls.map(({ cost }) => cost));
  }

  #settle(month: string, invoice: ModelInvoice): void {
    const total = invoice.subtotal - invoice.credits;
    invoice.isPaid = true;
    this.receivable -= total;
    this.#note('purchase', total, month);
  }

  /** Takes an amount from what there is, in order; returns what was missing. */
  #draw(amount: bigint, sources: readonly (ModelLot | ModelCommitment)[]): bigint {
    let missing = amount;
    for (const source of sources) {
      const of = source.left > 0n ? 'left' : 'expired';
      const taken = source[of] < missing ? source[of] : missing;
      source[of] -= taken;
      if ('consumed' in source) source.consumed += taken;
      missing -= taken;
    }
    return missing;
  }

  #note(type: string, amount: bigint, month: string | null): void {
    this.transactions.push({ type, amount, month, balanceAfter: sum(this.lots.map(({ left }) => left)) - this.owed });
  }
}

export type ModelLot = {
  source: 'purchase' | 'promotion' | 'coupon' | 'adjustment';
  granted: bigint;
  left: bigint;
  /** What was left when it was written off: calls made before that may still need it. */
  expired: bigint;
  startsMs: number;
  expiresMs: number | null;
};
type ModelCommitment = {
  amount: bigint;
  left: bigint;
  expired: bigint;
  consumed: bigint;
  startMs: number;
  endMs: number;
};
export type ModelCall = {
  id: string;
  atMs: number;
  userId: string;
  apiKeyId: string;
  model: string;
  tokens: number;
  cost: bigint;
  /** The month on whose invoice it is. */
  month: string;
  /** What neither commitment nor credit paid. */
  payg: bigint;
  refunded: bigint;
};
type ModelInvoice = {
  status: 'draft' | 'finalized' | 'voided';
  subtotal: bigint;
  credits: bigint;
  dueDate: string | null;
  isPaid: boolean;
};
type ModelTransaction = { type: string; amount: bigint; balanceAfter: bigint; month: string | null };

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

const newInvoice = (): ModelInvoice => ({ status: 'draft', subtotal: 0n, credits: 0n, dueDate: null, isPaid: false });

export const sum = (amounts: readonly bigint[]): bigint => amounts.reduce((total, amount) => total + amount, 0n);
export const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
export const monthOf = (ms: number): string => dayOf(ms).slice(0, 7);
export const nextMonth = (ms: number): number =>
  Date.UTC(new Date(ms).getUTCFullYear(), new Date(ms).getUTCMonth() + 1);

/** Rates in nano-USD per million tokens, and per request. */
type ModelRates = { input: bigint; cached: bigint; output: bigint; request: bigint };

/** The cost of a call: exact, and rounded half up to a whole nano-USD only at the end. */
export function costOf(rates: ModelRates, call: { input: number; cached: number; output: number }): bigint {
  const millionths =
    BigInt(call.input - call.cached) * rates.input +
    BigInt(call.cached) * rates.cached +
    BigInt(call.output) * rates.output +
    rates.request * 1_000_000n;
  return (2n * millionths + 1_000_000n) / 2_000_000n;
}
