import type { NanoUsd } from '#shared/money.ts';

/** What a payment provider told, as far as it concerns Billing. */
export type PaymentEvent = {
  /** The provider's own id of the event; a repeat has the same. */
  id: string;
  /** Null: an event of no interest, or of money that is not booked. */
  payment: {
    /** The provider's id of the payment, which is the same in each event that tells of it; null: only this one does. */
    id: string | null;
    tenantId: string;
    amountNanoUsd: NanoUsd;
    /** The invoice which the payment is for; null: it buys credit. */
    invoiceId: string | null;
    description: string;
  } | null;
  /** Money that came in for an organization and that Billing has no way to book: of another currency, or too much. Null: none. */
  unbooked: { tenantId: string; amount: number; currency: unknown } | null;
};

/** Reads webhooks of one payment provider. */
export type PaymentProvider = {
  /** The event in a payload. INVALID_REQUEST for one that is forged, too old or unreadable; only of a genuine one the time is asked. */
  read(payload: Uint8Array, signature: string, now: () => Promise<number>): Promise<PaymentEvent>;
};
