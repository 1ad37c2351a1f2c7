import type { NanoUsd } from '#shared/money.ts';

/** The provider whose webhooks are received, and whose payments operators book. */
export const providerName = 'stripe';

/** What a payment provider reported, as far as it concerns Billing. */
export type PaymentEvent = {
  /** The provider's own id of the event; a repeat has the same. */
  id: string;
  /** Null: an event of no interest, or about money that is not booked. */
  payment: {
    /** The provider's id of the payment, the same in each event about it. */
    id: string;
    tenantId: string;
    amountNanoUsd: NanoUsd;
    /** The invoice that the payment is for; null: it buys credit. */
    invoiceId: string | null;
  } | null;
  /**
   * Money that came in but that Billing cannot book: in another currency or on another account, too much, or for what is no id of an
   * organization. Null: none.
   */
  unbooked: { paymentId: string; tenantId: string; amount: number; currency: unknown; account: unknown } | null;
  /** Money that went back to the payer. Null: none. */
  returned: PaymentReturn | null;
  /** Money that went back, or came in again, but that Billing cannot book: in another currency, or too much. Null: none. */
  unbookedReturn: { paymentId: string; returnId: string; amount: number; currency: unknown } | null;
};

/** Money of a payment that went back to its payer, or came in again after it had gone back. */
export type PaymentReturn = {
  /** The provider's id of the refund or dispute, the same in each event about it. */
  id: string;
  /** The provider's id of the payment. */
  paymentId: string;
  amountNanoUsd: NanoUsd;
  description: string;
  /** How much of it came in again, and stays: the refund failed, or the dispute was won, if only in part. */
  undoneNanoUsd: NanoUsd;
};

/** Reads webhooks of one payment provider. */
export type PaymentProvider = {
  /** The event in a payload. INVALID_REQUEST if it is forged, too old or unreadable. `now` is called only if the signature is right. */
  read(payload: Uint8Array, signature: string, now: () => Promise<number>): Promise<PaymentEvent>;
};
