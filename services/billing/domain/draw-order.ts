import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { smaller } from './amounts.ts';
import type { LedgerAccount, LedgerEntry } from './ledger.ts';

/** Something that usage may draw on while anything is left. */
export type Drawable = {
  id: string;
  remainingNanoUsd: bigint;
  /** What was left at its expiry, when it was written off; only calls made before that draw on it. */
  expiredNanoUsd: bigint;
};
/** `startsAtMs` is null for credit that also pays for earlier calls, as everything bought or granted does. */
export type DrawableLot = Drawable & { source: LotSource; startsAtMs: number | null; expiresAtMs: number | null };
export type DrawableCommitment = Drawable & { startsAtMs: number; endsAtMs: number };

/** Promotions and coupons are promotional lots; purchases and adjustments are paid lots. */
const isPromotional = (source: LotSource): boolean => source === LotSource.PROMOTION || source === LotSource.COUPON;

export const accountOfLot = (source: LotSource): LedgerAccount => (isPromotional(source) ? 'promotional' : 'wallet');

type PlaceInOrder = Pick<DrawableLot, 'id' | 'source' | 'expiresAtMs'>;

/** The order in which lots are drawn: promotional ones first, then by expiry, then by age, oldest first. */
export function byDrawOrder(a: PlaceInOrder, b: PlaceInOrder): number {
  const rank = Number(isPromotional(b.source)) - Number(isPromotional(a.source));
  if (rank !== 0) return rank;
  const expiry = (a.expiresAtMs ?? Number.POSITIVE_INFINITY) - (b.expiresAtMs ?? Number.POSITIVE_INFINITY);
  if (!Number.isNaN(expiry) && expiry !== 0) return expiry;
  return a.id < b.id ? -1 : 1;
}

/**
 * What an organization can draw on while a batch of charges is computed: commitment, then promotional lots by expiry, then paid lots, then
 * PAYG (reliability.md, Ledger). PAYG takes the rest: a call that was admitted is charged, cap or not.
 *
 * A call draws on what there was at its own time: its charge may come late, when the credit that admitted it has expired, or been written
 * off.
 */
export class Funds {
  readonly #commitments: DrawableCommitment[];
  readonly #lots: DrawableLot[];
  readonly #touched = new Set<Drawable>();

  constructor(commitments: readonly DrawableCommitment[], lots: readonly DrawableLot[]) {
    this.#commitments = commitments.map((commitment) => ({ ...commitment }));
    this.#lots = lots.map((lot) => ({ ...lot })).sort(byDrawOrder);
  }

  /** What is left in the lots. */
  get creditNanoUsd(): bigint {
    return this.#lots.reduce((sum, lot) => sum + lot.remainingNanoUsd, 0n);
  }

  /** What is left for calls made at `atMs`, without what ends before `untilMs`. */
  usable(atMs: number, untilMs: number): bigint {
    const endMs = Math.max(untilMs, atMs + 1);
    const commitments = this.#commitments.filter(({ startsAtMs, endsAtMs }) => startsAtMs <= atMs && endsAtMs >= endMs);
    const lots = this.#lots.filter(({ expiresAtMs }) => expiresAtMs === null || expiresAtMs >= endMs);
    return [...commitments, ...lots].reduce((sum, { remainingNanoUsd }) => sum + remainingNanoUsd, 0n);
  }

  /**
   * When, after `fromMs` and until `toMs`, something that calls may draw on began or ended, in order; nothing if nothing ended, since later
   * calls can then draw on whatever earlier ones could.
   */
  turns(fromMs: number, toMs: number): number[] {
    const isWithin = (ms: number | null): ms is number => ms !== null && ms > fromMs && ms <= toMs;
    const ends = [
      ...this.#commitments.map(({ endsAtMs }) => endsAtMs),
      ...this.#lots.map(({ expiresAtMs }) => expiresAtMs),
    ];
    if (!ends.some(isWithin)) return [];
    const starts = [...this.#commitments, ...this.#lots].map(({ startsAtMs }) => startsAtMs);
    return [...new Set([...starts, ...ends].filter(isWithin))].sort((a, b) => a - b);
  }

  /** Takes the cost of a call made at `atMs`; returns the debits, and how much of it is PAYG. */
  draw(costNanoUsd: bigint, atMs: number): { debits: LedgerEntry[]; paygNanoUsd: bigint } {
    const debits: LedgerEntry[] = [];
    let left = costNanoUsd;
    for (const commitment of this.#commitments) {
      if (commitment.startsAtMs > atMs || commitment.endsAtMs <= atMs) continue;
      left -= this.#takeAll('commitment', commitment, left, debits);
    }
    for (const lot of this.#lots) {
      if (lot.startsAtMs !== null && lot.startsAtMs > atMs) continue;
      if (lot.expiresAtMs !== null && lot.expiresAtMs <= atMs) continue;
      left -= this.#takeAll(accountOfLot(lot.source), lot, left, debits);
    }
    if (left > 0n) debits.push({ account: 'paygAccrual', itemId: null, amountNanoUsd: left });
    return { debits, paygNanoUsd: left };
  }

  /** Takes an amount, or as much of it as there is, from lots only: from a certain one first, if it is given. */
  drawLots(amountNanoUsd: bigint, firstId: string | null = null): LedgerEntry[] {
    const debits: LedgerEntry[] = [];
    let left = amountNanoUsd;
    for (const lot of this.#lots.toSorted((a, b) => Number(b.id === firstId) - Number(a.id === firstId))) {
      const debit = { account: accountOfLot(lot.source), itemId: lot.id };
      left -= this.#take('remainingNanoUsd', lot, debit, left, debits);
    }
    return debits;
  }

  /** Takes what is left of a source, and what was written off, which then no longer counts as a gain. */
  #takeAll(account: LedgerAccount, source: Drawable, left: bigint, debits: LedgerEntry[]): bigint {
    const taken = this.#take('remainingNanoUsd', source, { account, itemId: source.id }, left, debits);
    const writtenOff = { account: 'expiredCredit', itemId: null } as const;
    return taken + this.#take('expiredNanoUsd', source, writtenOff, left - taken, debits);
  }

  /** Takes what there is, up to `left`, and records the debit; returns how much that is. */
  #take(
    part: 'remainingNanoUsd' | 'expiredNanoUsd',
    source: Drawable,
    debit: Omit<LedgerEntry, 'amountNanoUsd'>,
    left: bigint,
    debits: LedgerEntry[],
  ): bigint {
    const amountNanoUsd = smaller(source[part], left);
    if (amountNanoUsd <= 0n) return 0n;
    source[part] -= amountNanoUsd;
    this.#touched.add(source);
    debits.push({ ...debit, amountNanoUsd });
    return amountNanoUsd;
  }

  /** The lots and commitments that were drawn on, with what is left of them. */
  get changed(): { lots: DrawableLot[]; commitments: DrawableCommitment[] } {
    return {
      lots: this.#lots.filter((lot) => this.#touched.has(lot)),
      commitments: this.#commitments.filter((commitment) => this.#touched.has(commitment)),
    };
  }
}
