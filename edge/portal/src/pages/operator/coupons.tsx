import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { utcToday } from '../../api/server-clock.ts';
import { formatCount, numberOrText } from '../../format/number.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button, ButtonLink } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Page } from '../../ui/page.tsx';
import { PagedCard } from '../../ui/paged-card.tsx';
import type { Column } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';
import type { Coupon } from './types.ts';

export function Coupons() {
  const [creating, setCreating] = useState(false);
  return (
    <Page
      title="Coupons"
      description="Codes for credit. Each works once per organization."
      actions={
        <>
          <ButtonLink icon="log" href="/operator/audit?type=coupon_redeemed">
            Redemptions
          </ButtonLink>
          <Button look="primary" icon="plus" onClick={() => setCreating(true)}>
            Create coupon
          </Button>
        </>
      }
    >
      <PagedCard<Coupon>
        label="Coupons"
        wordy
        path="/admin/coupons"
        columns={columns}
        rowKey={(coupon) => coupon.id}
        empty={<EmptyState icon="ticket" title="No coupons yet" />}
      />
      {creating && <CreateCoupon onClose={() => setCreating(false)} />}
    </Page>
  );
}

const columns: readonly Column<Coupon>[] = [
  {
    name: 'Code',
    sortBy: (coupon) => coupon.code,
    cell: (coupon) => (
      <span className="flex flex-wrap items-center gap-2">
        <code className="font-mono">{coupon.code}</code>
        {coupon.disabled_at !== null && <Badge>Off</Badge>}
      </span>
    ),
  },
  { name: 'Amount', usd: (coupon) => coupon.amount_usd, exact: true },
  {
    name: 'Redeemed',
    end: true,
    cell: (coupon) => `${formatCount(coupon.redemptions)} of ${formatCount(coupon.redemptions_max)}`,
  },
  { name: 'Redeem until', cell: (coupon) => <Time value={coupon.redeem_until} none="Forever" /> },
  { name: 'Created', sortBy: (coupon) => coupon.created_at, cell: (coupon) => <Time value={coupon.created_at} /> },
  { name: '', end: true, cell: (coupon) => <Disable coupon={coupon} /> },
];

function Disable({ coupon }: { coupon: Coupon }) {
  const [asking, setAsking] = useState(false);
  if (coupon.disabled_at !== null) return null;
  return (
    <>
      <Button size="small" aria-label={`Switch off ${coupon.code}`} onClick={() => setAsking(true)}>
        Switch off
      </Button>
      {asking && <DisableDialog coupon={coupon} onClose={() => setAsking(false)} />}
    </>
  );
}

function DisableDialog({ coupon: { id, code }, onClose }: { coupon: Coupon; onClose: () => void }) {
  const toast = useToast();
  const disable = useAction({
    stale: ['/admin/coupons'],
    onSuccess: () => toast.say(`${code} can no longer be redeemed.`),
    onDone: onClose,
  });
  return (
    <ConfirmDialog
      title={`Switch ${code} off?`}
      description="Nobody can redeem it from now on; credit already redeemed stays. This cannot be undone."
      act="Switch off"
      onAct={() => disable.run({ method: 'POST', path: `/admin/coupons/${id}/disable` })}
      onClose={onClose}
      pending={disable.pending}
      error={disable.error}
    />
  );
}

function CreateCoupon({ onClose }: { onClose: () => void }) {
  const [created, setCreated] = useState<Coupon | null>(null);
  const [code, setCode] = useState('');
  const [amount, setAmount] = useState('');
  const [most, setMost] = useState('1');
  const [until, setUntil] = useState('');
  const [lifetime, setLifetime] = useState('');
  const create = useAction<Coupon>({ stale: ['/admin/coupons'], onSuccess: setCreated });
  // The whole code may already be on its way, and can be shown only once.
  const cancel = () => {
    if (!create.pending) onClose();
  };
  const body = {
    ...(code === '' ? {} : { code: code.trim() }),
    amount_usd: numberOrText(amount),
    redemptions_max: numberOrText(most),
    ...(until === '' ? {} : { redeem_until: `${until}T23:59:59Z` }),
    ...(lifetime === '' ? {} : { credit_lifetime_days: numberOrText(lifetime) }),
  };
  if (created !== null) {
    return (
      <Dialog open onClose={onClose} keep secret title="The coupon is ready">
        <Notice tone="warn">Copy the code now. Lists show only part of it.</Notice>
        <p className="mt-4 flex flex-wrap items-center gap-2">
          <code className="font-mono text-base select-all wrap-anywhere">{created.code}</code>
          <CopyButton text={created.code} />
        </p>
        <DialogActions>
          <Button look="primary" onClick={onClose}>
            I have copied it
          </Button>
        </DialogActions>
      </Dialog>
    );
  }
  return (
    <Dialog open onClose={cancel} keep title="Create a coupon">
      <Form onSubmit={() => create.run({ method: 'POST', path: '/admin/coupons', body })}>
        <FormError error={create.error} />
        <TextField
          label="Code"
          autoFocus
          spellCheck={false}
          className="font-mono uppercase"
          hint="Leave empty for a random code."
          value={code}
          onChange={setCode}
          error={fieldError(create.error, 'code')}
        />
        <div className="grid gap-3 sm:grid-cols-2">
          <TextField
            label="Amount in USD"
            inputMode="decimal"
            value={amount}
            onChange={setAmount}
            error={fieldError(create.error, 'amount_usd')}
          />
          <TextField
            label="For how many organizations"
            inputMode="numeric"
            value={most}
            onChange={setMost}
            error={fieldError(create.error, 'redemptions_max')}
          />
          <TextField
            label="Redeem until (UTC)"
            type="date"
            min={utcToday()}
            value={until}
            onChange={setUntil}
            error={fieldError(create.error, 'redeem_until')}
          />
          <TextField
            label="Days the credit lasts"
            inputMode="numeric"
            placeholder="Forever"
            value={lifetime}
            onChange={setLifetime}
            error={fieldError(create.error, 'credit_lifetime_days')}
          />
        </div>
        <DialogActions>
          <Button onClick={cancel}>Cancel</Button>
          <Button type="submit" look="primary" pending={create.pending} disabled={amount.trim() === ''}>
            Create coupon
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
