import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { Link } from '../../router/link.tsx';
import { Button } from '../../ui/button.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { AuthFrame, authLink } from './auth-frame.tsx';

export function ForgotPassword() {
  const [email, setEmail] = useState('');
  const [askedFor, setAskedFor] = useState<string | null>(null);
  const ask = useAction({ onSuccess: () => setAskedFor(email.trim()) });
  return (
    <AuthFrame
      title="Forgot your password?"
      description="We’ll email you a link for setting a new one."
      footer={
        <Link href="/sign-in" className={authLink}>
          Back to sign-in
        </Link>
      }
    >
      {askedFor !== null ? (
        <Notice tone="good" role="status">
          If there is an account for {askedFor}, an email is on its way. Its link works once.
        </Notice>
      ) : (
        <Form
          onSubmit={() => ask.run({ method: 'POST', path: '/auth/password/forgot', body: { email: email.trim() } })}
        >
          <FormError error={ask.error} />
          <TextField
            label="Email"
            type="email"
            autoComplete="username"
            autoFocus
            required
            value={email}
            onChange={setEmail}
            error={fieldError(ask.error, 'email')}
          />
          <Button type="submit" look="primary" size="large" pending={ask.pending}>
            Email me a link
          </Button>
        </Form>
      )}
    </AuthFrame>
  );
}
