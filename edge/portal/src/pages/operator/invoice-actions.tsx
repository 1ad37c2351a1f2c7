import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import type { Invoice } from '../../api/types.ts';
import { formatUsdExact } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import { PaymentField } from './payment-field.tsx';

/** What an operator is asked before it is done with an invoice. */
export type InvoiceQuestion = { act: 'pay' | 'void'; invoice: Invoice };

const stale = ['/admin/organizations', '/billing'];

/** What an operator can do with an invoice that is due: mark it as paid elsewhere, or void it. */
export function InvoiceActions({ invoice, onAsk }: { invoice: Invoice; onAsk: (question: InvoiceQuestion) => void }) {
  const { number } = invoice;
  if (invoice.status !== 'finalized' || invoice.payment_status === 'paid') return null;
  return (
    <span className="inline-flex gap-2 max-[17rem]:flex-wrap">
      <Button size="small" aria-label={`Mark as paid: ${number}`} onClick={() => onAsk({ act: 'pay', invoice })}>
        Mark as paid
      </Button>
      <Button size="small" aria-label={`Void ${number}`} onClick={() => onAsk({ act: 'void', invoice })}>
        Void
      </Button>
    </span>
  );
}

/**
 * Asks, and does it. `path` is the organization's. It is beside the list: once an invoice is paid, a list of those to be paid no longer has the
 * row, and a refusal must stay readable.
 */
export function InvoiceDialog({
  path,
  question,
  onClose,
}: {
  path: string;
  question: InvoiceQuestion | null;
  onClose: () => void;
}) {
  if (question === null) return null;
  const Asking = question.act === 'pay' ? PayDialog : VoidDialog;
  return <Asking path={path} invoice={question.invoice} onClose={onClose} />;
}

type DialogProps = { path: string; invoice: Invoice; onClose: () => void };

function VoidDialog({ path, invoice: { id, number, total_usd }, onClose }: DialogProps) {
  const toast = useToast();
  const voiding = useAction<Invoice>({
    stale,
    onSuccess: () => toast.say(`${number} was voided.`),
    onDone: onClose,
  });
  return (
    <ConfirmDialog
      title={`Void ${number}?`}
      description={`Nobody will have to pay ${formatUsdExact(total_usd)}. This cannot be undone.`}
      act="Void"
      pending={voiding.pending}
      error={voiding.error}
      onAct={() => voiding.run({ method: 'POST', path: `${path}/invoices/${id}/void` })}
      onClose={onClose}
    />
  );
}

function PayDialog({ path, invoice: { id, number, amount_due_usd }, onClose }: DialogProps) {
  const toast = useToast();
  const [payment, setPayment] = useState('');
  const pay = useAction<Invoice>({
    stale,
    onSuccess: () => toast.say(`${number} was marked as paid.`),
    onDone: onClose,
  });
  const paymentId = payment.trim();
  const body = paymentId === '' ? {} : { payment_id: paymentId };
  return (
    <Dialog
      open
      keep
      onClose={onClose}
      title={`Mark ${number} as paid?`}
      description={`${formatUsdExact(amount_due_usd)} has been paid elsewhere. This cannot be undone.`}
    >
      <Form onSubmit={() => pay.run({ method: 'POST', path: `${path}/invoices/${id}/pay`, body })}>
        <FormError error={pay.error} />
        <PaymentField value={payment} onChange={setPayment} error={pay.error} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="danger" pending={pay.pending}>
            Mark as paid
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
