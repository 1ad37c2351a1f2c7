import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import type { AdminUser } from './types.ts';

/** Gives a user another address, for somebody who cannot open a link in an email to it, or cannot sign in to ask for one. */
export function EmailDialog({ user, onClose }: { user: AdminUser; onClose: () => void }) {
  const toast = useToast();
  const [email, setEmail] = useState('');
  const change = useAction<AdminUser>({
    stale: ['/admin/users', '/members', '/profile'],
    onSuccess: (changed) => toast.say(`${user.email} is now ${changed.email}.`),
    onDone: onClose,
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Change the address of ${user.email}`}
      description="It takes effect at once: make sure that the new address is theirs, since whoever reads its mail can set a new password. They are told at both."
    >
      <Form
        onSubmit={() => change.run({ method: 'PATCH', path: `/admin/users/${user.id}`, body: { email: email.trim() } })}
      >
        <FormError error={change.error} />
        <TextField
          label="New email"
          type="email"
          autoComplete="off"
          autoFocus
          required
          value={email}
          onChange={setEmail}
          error={fieldError(change.error, 'email')}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={change.pending}>
            Change address
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
