import { LotSource } from '#gen/modelgateway/billing/v1/lot_pb.ts';
import { smaller } from './amounts.ts';
import type { LedgerAccount, LedgerEntry } from './ledger.ts';

/** What usage may draw on, as long as something is left. */
export type Drawable = {
  id: string;
  remainingNanoUsd: bigint;
  /** What was left when its time was over and it was written off; only calls that were made before draw on that. */
  expiredNanoUsd: bigint;
};
export type DrawableLot = Drawable & { source: LotSource; expiresAtMs: number | null };
export type DrawableCommitment = Drawable & { startsAtMs: number; endsAtMs: number };

/** Promotions and coupons are promotional lots; purchases and adjustments are paid lots. */
const isPromotional = (source: LotSource): boolean => source === LotSource.PROMOTION || source === LotSource.COUPON;

export const accountOfLot = (source: LotSource): LedgerAccount => (isPromotional(source) ? 'promotional' : 'wallet');

type PlaceInOrder = Pick<DrawableLot, 'id' | 'source' | 'expiresAtMs'>;

/** The order in which lots are drawn: promotional ones first, then by expiry, then the older one. */
export function byDrawOrder(a: PlaceInOrder, b: PlaceInOrder): number {
  const rank = Number(isPromotional(b.source)) - Number(isPromotional(a.source));
  if (rank !== 0) return rank;
  const expiry = (a.expiresAtMs ?? Number.POSITIVE_INFINITY) - (b.expiresAtMs ?? Number.POSITIVE_INFINITY);
  if (!Number.isNaN(expiry) && expiry !== 0) return expiry;
  return a.id < b.id ? -1 : 1;
}

/**
 * What an organization can draw on, while a batch of charges is reckoned: commitment, then promotional lots by expiry, then paid
 * lots, then PAYG (reliability.md, Ledger). PAYG takes whatever is left: a call that was admitted is charged, cap or not.
 *
 * A call draws on what was there at its own time: its charge may come late, when the credit that let it in has ended, or been written
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

  /** Takes the cost of a call that was made at `atMs`; answers the debits, and how much of it is PAYG. */
  draw(costNanoUsd: bigint, atMs: number): { debits: LedgerEntry[]; paygNanoUsd: bigint } {
    const debits: LedgerEntry[] = [];
    let left = costNanoUsd;
    for (const commitment of this.#commitments) {
      if (commitment.startsAtMs > atMs || commitment.endsAtMs <= atMs) continue;
      left -= this.#take('commitment', commitment, left, debits);
      left -= this.#takeExpired(commitment, left, debits);
    }
    for (const lot of this.#lots) {
      if (lot.expiresAtMs !== null && lot.expiresAtMs <= atMs) continue;
      left -= this.#take(accountOfLot(lot.source), lot, left, debits);
      left -= this.#takeExpired(lot, left, debits);
    }
    if (left > 0n) debits.push({ account: 'paygAccrual', itemId: null, amountNanoUsd: left });
    return { debits, paygNanoUsd: left };
  }

  /** Takes an amount from lots alone; null, and nothing taken, when they have less. */
  drawLots(amountNanoUsd: bigint): LedgerEntry[] | null {
    if (this.creditNanoUsd < amountNanoUsd) return null;
    const debits: LedgerEntry[] = [];
    let left = amountNanoUsd;
    for (const lot of this.#lots) left -= this.#take(accountOfLot(lot.source), lot, left, debits);
    return debits;
  }

  /** Takes what there is, up to `left`, and notes the debit; answers how much it is. */
  #take(account: LedgerAccount, source: Drawable, left: bigint, debits: LedgerEntry[]): bigint {
    const amountNanoUsd = smaller(source.remainingNanoUsd, left);
    if (amountNanoUsd <= 0n) return 0n;
    source.remainingNanoUsd -= amountNanoUsd;
    this.#touched.add(source);
    debits.push({ account, itemId: source.id, amountNanoUsd });
    return amountNanoUsd;
  }

  /** The same from what was written off, which is a gain no more. */
  #takeExpired(source: Drawable, left: bigint, debits: LedgerEntry[]): bigint {
    const amountNanoUsd = smaller(source.expiredNanoUsd, left);
    if (amountNanoUsd <= 0n) return 0n;
    source.expiredNanoUsd -= amountNanoUsd;
    this.#touched.add(source);
    debits.push({ account: 'expiredCredit', itemId: null, amountNanoUsd });
    return amountNanoUsd;
  }

  /** The lots and commitments of which something was taken, with what is left. */
  get changed(): { lots: DrawableLot[]; commitments: DrawableCommitment[] } {
    return {
      lots: this.#lots.filter((lot) => this.#touched.has(lot)),
      commitments: this.#commitments.filter((commitment) => this.#touched.has(commitment)),
    };
  }
}
