import type { TransactionType } from '#gen/modelgateway/billing/v1/transaction_pb.ts';

/*
 * Double entry (reliability.md, Ledger). Debits are positive, credits negative; the entries of a transaction sum to 0. From the operator's
 * point of view, credit that organizations hold is owed to them, so its balance is negative, and what they owe is positive.
 */

/** The accounts of each organization, with their numbers in the table of entries. */
export const accountNumbers = {
  /** Finalized invoices that are not paid. */
  receivable: 1,
  /** Credit that was bought, or granted as a correction. */
  wallet: 2,
  /** Promotions and coupons. */
  promotional: 3,
  /** Agreed amounts that are not used yet. */
  commitment: 4,
  revenue: 5,
  /** Credit and commitments that nobody used in time. */
  expiredCredit: 6,
  /** Usage beyond all credit that is not on a finalized invoice yet. */
  paygAccrual: 7,
  /** What came from outside, payments and agreed commitments, less what went back there. */
  funding: 8,
  /** What was given away. */
  grantedCredit: 9,
  /** What organizations owe since more credit was taken from them than they had; credit that they get later pays it first. */
  overdraft: 10,
} as const;

export type LedgerAccount = keyof typeof accountNumbers;

export type LedgerEntry = {
  account: LedgerAccount;
  /** The lot or commitment, for the accounts that have them. */
  itemId: string | null;
  amountNanoUsd: bigint;
};

export type Balances = Record<LedgerAccount, bigint>;

/** A transaction and what it moves, before it is posted. */
export type Posting = {
  /** UNSPECIFIED for movements that organizations do not see. */
  type: TransactionType;
  /** Positive for what the organization gains. */
  amountNanoUsd: bigint;
  invoiceMonth: string | null;
  description: string;
  usageEventId: string | null;
  reversesId: string | null;
  requestId: string | null;
  entries: readonly LedgerEntry[];
};

export const postingDefaults = {
  invoiceMonth: null,
  description: '',
  usageEventId: null,
  reversesId: null,
  requestId: null,
} as const;

/** Changes balances by a posting. Throws if it does not sum to 0, which is a bug, never the fault of a request. */
export function applyPosting(
  balances: Balances,
  { entries, description }: Pick<Posting, 'entries' | 'description'>,
): void {
  let sum = 0n;
  for (const { account, amountNanoUsd } of entries) {
    balances[account] += amountNanoUsd;
    sum += amountNanoUsd;
  }
  if (sum !== 0n) throw new Error(`The posting "${description}" is out of balance by ${sum} nano-USD`);
}

/** What is booked in the wallet: all lots, expired ones until they are written off, less what the organization owes. */
export const walletBalance = ({ wallet, promotional, overdraft }: Balances): bigint =>
  -(wallet + promotional + overdraft);

/** Moves an amount from one account to another. */
export const transfer = (
  amountNanoUsd: bigint,
  debited: LedgerAccount,
  credited: LedgerAccount,
  item: { debited?: string; credited?: string } = {},
): LedgerEntry[] => [
  { account: debited, itemId: item.debited ?? null, amountNanoUsd },
  { account: credited, itemId: item.credited ?? null, amountNanoUsd: -amountNanoUsd },
];

/** The largest sum in an account: far below the end of 64 bits, and above anything real (8 billion USD). */
export const balanceNanoUsdMax = 8_000_000_000_000_000_000n;
