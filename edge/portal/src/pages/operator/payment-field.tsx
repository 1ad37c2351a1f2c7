import type { ApiError } from '../../api/error.ts';
import { fieldError, TextField } from '../../ui/field.tsx';

type PaymentFieldProps = { value: string; onChange: (value: string) => void; error: ApiError | null };

/** The payment provider's id of the payment that an operator books. */
export const PaymentField = ({ value, onChange, error }: PaymentFieldProps) => (
  <TextField
    label="Payment ID"
    placeholder="pi_…"
    hint="Optional, of a payment at the provider: it is then booked only once, and refunds of it are taken back."
    maxLength={255}
    value={value}
    onChange={onChange}
    error={fieldError(error, 'payment_id')}
  />
);
