import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, TextArea } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import type { AdminOrganization } from './types.ts';

export function SuspensionDialog({
  organization,
  path,
  onClose,
}: {
  organization: AdminOrganization;
  path: string;
  onClose: () => void;
}) {
  const toast = useToast();
  const [reason, setReason] = useState('');
  // As it was when the question was asked: what is read meanwhile must not turn an answer into its opposite.
  const [suspended] = useState(organization.status === 'suspended');
  const change = useAction<AdminOrganization>({
    stale: ['/admin/organizations', '/profile'],
    onSuccess: () =>
      toast.say(
        <>
          <bdi>{organization.name}</bdi> was {suspended ? 'restored' : 'suspended'}.
        </>,
      ),
    onDone: onClose,
  });
  const submit = () =>
    change.run(
      suspended
        ? { method: 'POST', path: `${path}/restore` }
        : { method: 'POST', path: `${path}/suspend`, body: { reason } },
    );
  return (
    <Dialog
      open
      onClose={onClose}
      title={
        <>
          {suspended ? 'Restore' : 'Suspend'} <bdi>{organization.name}</bdi>?
        </>
      }
      description={
        suspended
          ? 'Its keys and sessions may call models again at once.'
          : 'Inference, jobs and realtime are refused at once, for keys and sessions alike. Reads and billing continue.'
      }
    >
      <Form onSubmit={submit}>
        <FormError error={change.error} />
        {!suspended && (
          <TextArea
            label="Reason"
            rows={3}
            autoFocus
            hint="For the audit log and other operators."
            value={reason}
            onChange={setReason}
            error={fieldError(change.error, 'reason')}
          />
        )}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look={suspended ? 'primary' : 'danger'} pending={change.pending}>
            {suspended ? 'Restore' : 'Suspend'}
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
