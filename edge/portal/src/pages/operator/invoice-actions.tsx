import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import type { Invoice } from '../../api/types.ts';
import { formatUsdExact } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { useToast } from '../../ui/toast.tsx';

type Act = 'pay' | 'void';

/** What an operator can do with an invoice that is due: mark it as paid elsewhere, or void it. `path` is the organization's. */
export function InvoiceActions({ path, invoice }: { path: string; invoice: Invoice }) {
  const toast = useToast();
  const [act, setAct] = useState<Act | null>(null);
  const change = useAction<Invoice>({
    stale: ['/admin/organizations', '/billing'],
    onSuccess: ({ number, status }) => {
      toast.say(status === 'voided' ? `${number} was voided.` : `${number} was marked as paid.`);
      setAct(null);
    },
  });
  const ask = (next: Act) => {
    change.reset();
    setAct(next);
  };
  const { number, total_usd, amount_due_usd } = invoice;
  return (
    <>
      {invoice.status === 'finalized' && invoice.payment_status !== 'paid' && (
        <span className="inline-flex gap-2">
          <Button size="small" aria-label={`Mark as paid: ${number}`} onClick={() => ask('pay')}>
            Mark as paid
          </Button>
          <Button size="small" aria-label={`Void ${number}`} onClick={() => ask('void')}>
            Void
          </Button>
        </span>
      )}
      {act !== null && (
        <ConfirmDialog
          title={act === 'pay' ? `Mark ${number} as paid?` : `Void ${number}?`}
          description={
            act === 'pay'
              ? `${formatUsdExact(amount_due_usd)} has been paid elsewhere. This cannot be undone.`
              : `Nobody will have to pay ${formatUsdExact(total_usd)}. This cannot be undone.`
          }
          act={act === 'pay' ? 'Mark as paid' : 'Void'}
          pending={change.pending}
          error={change.error}
          onAct={() => change.run({ method: 'POST', path: `${path}/invoices/${invoice.id}/${act}` })}
          onClose={() => setAct(null)}
        />
      )}
    </>
  );
}
