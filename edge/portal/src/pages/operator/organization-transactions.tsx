import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import type { Transaction } from '../../api/types.ts';
import { formatUsdExact, numberOrText } from '../../format/number.ts';
import { formatDateTime } from '../../format/time.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import { Transactions } from '../billing/transactions.tsx';
import { callOfCharge } from './calls-filtered.ts';

/** An organization's transactions. An operator can refund charges. */
export function OrganizationTransactions({ path }: { path: string }) {
  const [refunding, setRefunding] = useState<Transaction | null>(null);
  return (
    <>
      <Transactions
        path={`${path}/transactions`}
        callHref={callOfCharge}
        action={(row) =>
          row.type === 'usage' && (
            <Button
              size="small"
              aria-label={`Refund ${formatUsdExact(-row.amount_usd)} of ${formatDateTime(row.occurred_at)}`}
              onClick={() => setRefunding(row)}
            >
              Refund
            </Button>
          )
        }
      />
      {refunding !== null && (
        <RefundDialog path={`${path}/transactions`} charge={refunding} onClose={() => setRefunding(null)} />
      )}
    </>
  );
}

function RefundDialog({ path, charge, onClose }: { path: string; charge: Transaction; onClose: () => void }) {
  const toast = useToast();
  const [amount, setAmount] = useState('');
  const [description, setDescription] = useState('');
  const refund = useAction<Transaction>({
    stale: ['/admin/organizations', '/billing'],
    onSuccess: ({ amount_usd }) => toast.say(`${formatUsdExact(amount_usd)} was refunded as credit.`),
    onDone: onClose,
  });
  const submit = () =>
    refund.run({
      method: 'POST',
      path: `${path}/${charge.id}/refund`,
      body: { ...(amount.trim() === '' ? {} : { amount_usd: numberOrText(amount) }), description: description.trim() },
    });
  return (
    <Dialog
      open
      keep
      onClose={onClose}
      title={`Refund ${formatUsdExact(-charge.amount_usd)}?`}
      description="The refund is credit that does not expire; the charge itself stays in the ledger. This cannot be undone."
    >
      <Form onSubmit={submit}>
        <FormError error={refund.error} />
        <TextField
          label="Amount in USD"
          inputMode="decimal"
          placeholder="All that is left"
          value={amount}
          onChange={setAmount}
          error={fieldError(refund.error, 'amount_usd')}
        />
        <TextField
          label="Reason"
          hint="The organization sees it in its transactions."
          maxLength={255}
          value={description}
          onChange={setDescription}
          error={fieldError(refund.error, 'description')}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="danger" pending={refund.pending} disabled={description.trim() === ''}>
            Refund
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
