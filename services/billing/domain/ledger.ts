/*
 * Double entry (reliability.md, Ledger). Debits are above 0, credits below; the entries of a transaction sum to 0. Seen from the
 * operator, credit that organizations hold is owed to them, so it stands below 0, and what they owe stands above.
 */

/** The accounts of each organization, with their numbers in the table of entries. */
export const accountNumbers = {
  /** Finalized invoices which are not paid. */
  receivable: 1,
  /** Credit that was bought or given to set something right. */
  wallet: 2,
  /** Promotions and coupons. */
  promotional: 3,
  /** Agreed amounts which are not used yet. */
  commitment: 4,
  revenue: 5,
  /** Credit and commitments which nobody used in time. */
  expiredCredit: 6,
  /** Usage beyond all credit which is not on a finalized invoice yet. */
  paygAccrual: 7,
  /** What came from outside: payments and agreed commitments. */
  funding: 8,
  /** What was given for nothing. */
  grantedCredit: 9,
} as const;

export type LedgerAccount = keyof typeof accountNumbers;

export type LedgerEntry = {
  account: LedgerAccount;
  /** The lot or commitment, for the accounts that have them. */
  itemId: string | null;
  amountNanoUsd: bigint;
};

export type Balances = Record<LedgerAccount, bigint>;

/** What a transaction is and what it moves, before it is posted. */
export type Posting = {
  /** modelgateway.billing.v1.TransactionType; 0 for movements which organizations do not see. */
  type: number;
  /** Above 0 for what the organization gains. */
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

/** Moves balances to what they are behind a posting. Throws for one that does not sum to 0: that is a fault of ours, never of a request. */
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

/** The wallet as its organization sees it: all lots which are not expired. */
export const walletBalance = ({ wallet, promotional }: Balances): bigint => -(wallet + promotional);

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

/** The largest sum an account may reach: far below the end of 64 bits, and above anything real (8 billion USD). */
export const balanceNanoUsdMax = 8_000_000_000_000_000_000n;
