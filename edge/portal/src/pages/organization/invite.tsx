import { useState } from 'react';
import { useAction, useClaims } from '../../api/hooks.ts';
import type { Invitation } from '../../api/types.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, SelectField, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';

/** What an operator has to do where no email leaves. */
export const passItOn = 'If no mail server is set up, pass on the link in the mail outbox.';

/** Sends an invitation to the organization whose invitations are at `path`. */
export function InviteDialog({
  path,
  mayMakeOwners,
  onClose,
}: {
  path: string;
  mayMakeOwners: boolean;
  onClose: () => void;
}) {
  const toast = useToast();
  const { operator } = useClaims();
  const [email, setEmail] = useState('');
  const [role, setRole] = useState('member');
  const invite = useAction<Invitation>({
    stale: [path],
    onSuccess: () => {
      const what = operator ? passItOn : 'If it does not arrive, ask the platform’s operator.';
      toast.say(`${email.trim()} was invited by email. ${what}`);
    },
    onDone: onClose,
  });
  return (
    <Dialog open onClose={onClose} title="Invite someone" description="They get an email with a link that works once.">
      <Form onSubmit={() => invite.run({ method: 'POST', path, body: { email: email.trim(), role } })}>
        <FormError error={invite.error} />
        <TextField
          label="Email"
          type="email"
          autoFocus
          required
          value={email}
          onChange={setEmail}
          error={fieldError(invite.error, 'email')}
        />
        <SelectField
          label="Role"
          value={role}
          onChange={setRole}
          error={fieldError(invite.error, 'role')}
          hint={role === 'member' ? 'Their own keys and usage.' : 'Also members, billing and everyone’s usage.'}
          choices={[
            { value: 'member', label: 'Member' },
            { value: 'admin', label: 'Admin' },
            ...(mayMakeOwners ? [{ value: 'owner', label: 'Owner' }] : []),
          ]}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={invite.pending}>
            Send invitation
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
