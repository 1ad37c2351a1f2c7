import type { NanoUsd } from '#shared/money.ts';

/** What a payment provider reported, as far as it concerns Billing. */
export type PaymentEvent = {
  /** The provider's own id of the event; a repeat has the same. */
  id: string;
  /** Null: an event of no interest, or about money that is not booked. */
  payment: {
    /** The provider's id of the payment, the same in each event about it; null: only this event is. */
    id: string | null;
    tenantId: string;
    amountNanoUsd: NanoUsd;
    /** The invoice that the payment is for; null: it buys credit. */
    invoiceId: string | null;
    description: string;
  } | null;
  /** Money that came in but that Billing cannot book: in another currency, too much, or for what is no id of an organization. Null: none. */
  unbooked: { paymentId: string | null; tenantId: string; amount: number; currency: unknown } | null;
};

/** Reads webhooks of one payment provider. */
export type PaymentProvider = {
  /** The event in a payload. INVALID_REQUEST if it is forged, too old or unreadable. `now` is called only if the signature is right. */
  read(payload: Uint8Array, signature: string, now: () => Promise<number>): Promise<PaymentEvent>;
};
