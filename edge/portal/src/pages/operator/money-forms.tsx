import { useAction } from '../../api/hooks.ts';
import { utcToday } from '../../api/server-clock.ts';
import { numberOrText } from '../../format/number.ts';
import { addDays } from '../../format/time.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Checkbox, fieldError, SelectField, TextField } from '../../ui/field.tsx';
import { Form, FormError, useSentFields } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import { PaymentField } from './payment-field.tsx';

const noCredit = { amount: '', description: '', payment: '', mayOwe: false };

const stale = ['/admin/organizations', '/billing'];

/** Grants credit, or corrects the balance: a correction may be negative and needs a reason. */
export function CreditForm({ path }: { path: string }) {
  const toast = useToast();
  const { fields, type, clear } = useSentFields({ source: 'promotion', expires: '', ...noCredit }, noCredit);
  const { amount, source, expires, description, payment, mayOwe } = fields;
  const grant = useAction({
    stale,
    onSuccess: () => {
      toast.say(source === 'adjustment' ? 'Balance adjusted.' : 'Credit granted.');
      clear();
    },
  });
  const isAdjustment = source === 'adjustment';
  const paymentId = source === 'purchase' ? payment.trim() : '';
  const submit = () =>
    grant.run({
      method: 'POST',
      path: `${path}/${isAdjustment ? 'adjustments' : 'credits'}`,
      body: {
        amount_usd: numberOrText(amount),
        ...(isAdjustment ? { allow_negative_balance: mayOwe } : { source }),
        ...(isAdjustment || expires === '' ? {} : { expires_at: expires }),
        ...(description === '' ? {} : { description }),
        ...(paymentId === '' ? {} : { payment_id: paymentId }),
      },
    });
  return (
    <Card title="Grant credit">
      <Form onSubmit={submit}>
        <FormError error={grant.error} />
        <div className="grid min-[22rem]:grid-cols-2 gap-3">
          <TextField
            label="Amount in USD"
            inputMode="decimal"
            hint={isAdjustment ? 'Below 0 to deduct.' : undefined}
            value={amount}
            onChange={(amount) => type({ amount })}
            error={fieldError(grant.error, 'amount_usd')}
          />
          <SelectField
            label="Source"
            value={source}
            onChange={(source) => type({ source })}
            error={fieldError(grant.error, 'source')}
            choices={[
              { value: 'promotion', label: 'Promotion' },
              { value: 'purchase', label: 'Purchase' },
              { value: 'adjustment', label: 'Adjustment' },
            ]}
          />
        </div>
        {source === 'purchase' && (
          <PaymentField value={payment} onChange={(payment) => type({ payment })} error={grant.error} />
        )}
        {!isAdjustment && (
          <TextField
            label="Expires (UTC)"
            type="date"
            min={addDays(utcToday(), 1)}
            hint="At the start of this day. Leave empty for never."
            value={expires}
            onChange={(expires) => type({ expires })}
            error={fieldError(grant.error, 'expires_at')}
          />
        )}
        <TextField
          label="Description"
          value={description}
          onChange={(description) => type({ description })}
          error={fieldError(grant.error, 'description')}
        />
        {isAdjustment && (
          <Checkbox
            label="Allow a negative balance"
            hint="Deducts credit that was spent too, as after a lost dispute. Later credit pays that first."
            checked={mayOwe}
            onChange={(mayOwe) => type({ mayOwe })}
          />
        )}
        <div>
          <Button type="submit" look="primary" pending={grant.pending} disabled={amount.trim() === ''}>
            {isAdjustment ? 'Adjust balance' : 'Grant credit'}
          </Button>
        </div>
      </Form>
    </Card>
  );
}

export function CommitmentForm({ path }: { path: string }) {
  const toast = useToast();
  const today = utcToday();
  const { fields, type, clear } = useSentFields({ amount: '', start: today, end: addDays(today, 365) }, { amount: '' });
  const { amount, start, end } = fields;
  const create = useAction({
    stale,
    onSuccess: () => {
      toast.say('Commitment recorded.');
      clear();
    },
  });
  const submit = () =>
    create.run({
      method: 'POST',
      path,
      body: { amount_usd: numberOrText(amount), period_start: start, period_end: end },
    });
  return (
    <Card title="Record a commitment" description="Usage is paid from it before credit.">
      <Form onSubmit={submit}>
        <FormError error={create.error} />
        <TextField
          label="Amount in USD"
          inputMode="decimal"
          value={amount}
          onChange={(amount) => type({ amount })}
          error={fieldError(create.error, 'amount_usd')}
        />
        <div className="grid gap-3 sm:grid-cols-2">
          <TextField
            label="From (UTC)"
            type="date"
            value={start}
            onChange={(start) => type({ start })}
            error={fieldError(create.error, 'period_start')}
          />
          <TextField
            label="Until (not included)"
            type="date"
            value={end}
            onChange={(end) => type({ end })}
            error={fieldError(create.error, 'period_end')}
          />
        </div>
        <div>
          <Button type="submit" pending={create.pending} disabled={amount.trim() === ''}>
            Record commitment
          </Button>
        </div>
      </Form>
    </Card>
  );
}
