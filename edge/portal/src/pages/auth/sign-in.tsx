import { useEffect, useRef, useState } from 'react';
import { ApiError } from '../../api/error.ts';
import { useApi, useSession } from '../../api/hooks.ts';
import { Link } from '../../router/link.tsx';
import { navigate } from '../../router/router.ts';
import { Button } from '../../ui/button.tsx';
import { fieldError, PasswordField, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { AuthFrame, authLink } from './auth-frame.tsx';
import { safeNext } from './safe-next.ts';
import { emailInLink } from './username.tsx';

export function SignIn() {
  const api = useApi();
  const session = useSession();
  // Over another page, it is that page's, such as an address that is not confirmed yet.
  const [known] = useState(() => (window.location.pathname === '/sign-in' ? emailInLink() : ''));
  const [email, setEmail] = useState(known);
  const [password, setPassword] = useState('');
  const [error, setError] = useState<ApiError | null>(null);
  const [pending, setPending] = useState(false);
  const running = useRef(false);
  const query = new URLSearchParams(window.location.search);
  // When shown over another page it stands in for a session that ended there, and leads nowhere.
  const next = window.location.pathname === '/sign-in' ? safeNext(query.get('next')) : null;
  const before = useRef<string | null>(null);
  if (session.status === 'signed-out') before.current = session.userId;
  const userId = session.status === 'signed-in' ? session.claims.userId : null;
  useEffect(() => {
    if (userId === null || next === null) return;
    // Where somebody else was when they signed out may be nobody else's to see.
    const isAnother = before.current !== null && before.current !== userId;
    navigate(isAnother ? '/' : next, { replace: true });
  }, [userId, next]);

  // The pages that have led here after something was `done` say so below.
  const hasSignedOut = before.current !== null && query.get('done') === null;
  const reason =
    next === null
      ? 'Your session has ended. Sign in to continue where you left off.'
      : hasSignedOut
        ? 'You are signed out.'
        : query.get('next') === null
          ? null
          : 'Sign in to continue.';

  const submit = async () => {
    if (running.current) return;
    running.current = true;
    setPending(true);
    setError(null);
    try {
      await api.signIn(email.trim(), password);
    } catch (failure) {
      if (failure instanceof ApiError) setError(failure);
    } finally {
      running.current = false;
      setPending(false);
    }
  };

  return (
    <AuthFrame
      title="Sign in"
      description="to Model Gateway"
      footer={
        <>
          New here? You join by invitation.{' '}
          <Link href="/register" className={authLink}>
            How that works
          </Link>
        </>
      }
    >
      <Form onSubmit={() => void submit()}>
        {reason !== null && error === null && <Notice>{reason}</Notice>}
        {query.get('done') === 'accepted' && (
          <Notice tone="good">Welcome! Sign in with the address your invitation was sent to.</Notice>
        )}
        {query.get('done') === 'reset' && (
          <Notice tone="good">Your password has been changed. Sign in with the new one.</Notice>
        )}
        {!window.isSecureContext && (
          <Notice tone="warn">
            Without HTTPS your browser cannot keep you signed in: a reload signs you out, and so does half an hour.
          </Notice>
        )}
        <FormError error={error} />
        <TextField
          label="Email"
          type="email"
          autoComplete="username"
          autoFocus={known === ''}
          required
          value={email}
          onChange={setEmail}
          error={fieldError(error, 'email')}
        />
        <PasswordField
          label="Password"
          autoComplete="current-password"
          autoFocus={known !== ''}
          required
          value={password}
          onChange={setPassword}
          error={fieldError(error, 'password')}
        />
        <Button type="submit" look="primary" size="large" pending={pending}>
          Sign in
        </Button>
        <Link href="/forgot-password" className={`text-sm ${authLink}`}>
          Forgot your password?
        </Link>
      </Form>
    </AuthFrame>
  );
}
