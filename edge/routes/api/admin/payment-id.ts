import { Type } from 'typebox';

export const paymentIdSchema = Type.String({
  minLength: 1,
  maxLength: 255,
  description:
    "The payment provider's id of the payment (`pi_…` at Stripe), for one that its webhook has not booked. It is booked once, whoever tells of it: if it was, that is a conflict. Refunds and disputes of it take the credit.",
});
