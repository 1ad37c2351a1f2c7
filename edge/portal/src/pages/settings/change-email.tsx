import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { Email } from '../../ui/email.tsx';
import { fieldError, PasswordField, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Username } from '../auth/username.tsx';

/** Asks for another address to sign in with. It says what comes next until it is closed: a toast would be gone before the email is there. */
export function ChangeEmailDialog({ present, onClose }: { present: string; onClose: () => void }) {
  const [email, setEmail] = useState('');
  const [password, setPassword] = useState('');
  const [askedFor, setAskedFor] = useState<string | null>(null);
  const ask = useAction({ onSuccess: () => setAskedFor(email.trim()) });
  if (askedFor !== null) {
    return (
      <Dialog open onClose={onClose} title="Confirm your new address">
        <div className="grid gap-4">
          <Notice tone="good" role="status">
            An email is on its way to <Email address={askedFor} />. Open its link within an hour and confirm the
            address. Until then you sign in with <Email address={present} />.
          </Notice>
          <DialogActions>
            <Button look="primary" onClick={onClose}>
              Done
            </Button>
          </DialogActions>
        </div>
      </Dialog>
    );
  }
  return (
    <Dialog
      open
      onClose={onClose}
      title="Change your email address"
      description="You get a link at the new address to confirm it. Your API keys, usage and budgets stay yours."
    >
      <Form
        onSubmit={() =>
          ask.run({
            method: 'POST',
            path: '/auth/email/change',
            body: { email: email.trim(), current_password: password },
          })
        }
      >
        <FormError error={ask.error} />
        <TextField
          label="New email"
          type="email"
          autoComplete="email"
          autoFocus
          required
          value={email}
          onChange={setEmail}
          error={fieldError(ask.error, 'email')}
        />
        <Username email={present} />
        <PasswordField
          label="Password"
          autoComplete="current-password"
          required
          value={password}
          onChange={setPassword}
          error={fieldError(ask.error, 'current_password')}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={ask.pending}>
            Email me a link
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
