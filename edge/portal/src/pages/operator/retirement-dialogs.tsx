import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { currentMs } from '../../api/server-clock.ts';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import { Consequences } from './consequences.tsx';
import { draftOf, withDate } from './retirement-preview.ts';
import type { AdminRetirement } from './types.ts';

const stale = ['/admin/retirements', '/admin/models', '/models'];
const pathOf = (retirement: AdminRetirement) => `/admin/retirements/${encodeURIComponent(retirement.model)}`;

export function DateDialog({ retirement, onClose }: { retirement: AdminRetirement; onClose: () => void }) {
  const toast = useToast();
  const current = retirement.sunset_at === null ? null : new Date(retirement.sunset_at);
  const shown = current === null ? '' : localInput(current);
  const [date, setDate] = useState(shown);
  const save = useAction({
    stale,
    onSuccess: () => toast.say('Date set. Emails not yet sent follow it.'),
    onDone: onClose,
  });
  // The field shows neither milliseconds nor which of two hours it is when clocks go back.
  const sunsetAt = date === shown ? current : date === '' ? null : new Date(date);
  return (
    <Dialog open onClose={onClose} wide title={`When does ${retirement.model} retire?`}>
      <Form
        onSubmit={() =>
          sunsetAt !== null &&
          save.run({ method: 'PATCH', path: pathOf(retirement), body: { sunset_at: sunsetAt.toISOString() } })
        }
      >
        <FormError error={save.error} />
        <TextField
          label="Retires (local time)"
          type="datetime-local"
          autoFocus
          value={date}
          onChange={setDate}
          error={fieldError(save.error, 'sunset_at')}
        />
        {sunsetAt !== null && <Consequences draft={withDate(draftOf(retirement), sunsetAt, new Date(currentMs()))} />}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={save.pending} disabled={sunsetAt === null}>
            Save date
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

export function WithdrawDialog({ retirement, onClose }: { retirement: AdminRetirement; onClose: () => void }) {
  const toast = useToast();
  const withdraw = useAction({
    stale,
    onSuccess: () => toast.say('Announcement withdrawn.'),
    onDone: onClose,
  });
  return (
    <ConfirmDialog
      title={`Withdraw the retirement of ${retirement.model}?`}
      description="The headers disappear, and emails not yet sent are cancelled. Everyone to whom one was sent is told by email that the model stays."
      act="Withdraw"
      onAct={() => withdraw.run({ method: 'DELETE', path: pathOf(retirement) })}
      onClose={onClose}
      pending={withdraw.pending}
      error={withdraw.error}
    />
  );
}

/** A moment in the format of a datetime-local input: local, without a zone, and with seconds if it has any. */
function localInput(date: Date): string {
  const text = new Date(date.getTime() - date.getTimezoneOffset() * 60_000).toISOString();
  return text.slice(0, 19).replace(/:00$/, '');
}
