import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { Link } from '../../router/link.tsx';
import { Button } from '../../ui/button.tsx';
import { fieldError } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { AuthFrame, authLink, useLeadToSignIn } from './auth-frame.tsx';
import { NewPassword, passwordMeetsRules } from './new-password.tsx';
import { emailInLink, Username } from './username.tsx';

export function ResetPassword() {
  const [token] = useState(() => new URLSearchParams(window.location.search).get('token') ?? '');
  const [email] = useState(emailInLink);
  const [password, setPassword] = useState('');
  const reset = useAction({ onSuccess: useLeadToSignIn('reset', email) });
  return (
    <AuthFrame
      title="Set a new password"
      description={`${email === '' ? '' : `For ${email}. `}This ends all your sessions.`}
      footer={
        <Link href="/forgot-password" className={authLink}>
          Request a new link
        </Link>
      }
    >
      {token === '' ? (
        <Notice tone="warn">Open the link in the email: it contains a one-time token that is missing here.</Notice>
      ) : (
        <Form onSubmit={() => reset.run({ method: 'POST', path: '/auth/password/reset', body: { token, password } })}>
          <FormError error={reset.error} />
          <Username email={email} />
          <NewPassword autoFocus value={password} onChange={setPassword} error={fieldError(reset.error, 'password')} />
          <Button
            type="submit"
            look="primary"
            size="large"
            pending={reset.pending}
            disabled={!passwordMeetsRules(password)}
          >
            Set password
          </Button>
        </Form>
      )}
    </AuthFrame>
  );
}
