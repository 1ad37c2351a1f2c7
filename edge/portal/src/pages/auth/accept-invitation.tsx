import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { Link } from '../../router/link.tsx';
import { Button } from '../../ui/button.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { AuthFrame, authLink, useLeadToSignIn } from './auth-frame.tsx';
import { PasswordRules, passwordMeetsRules } from './password-rules.tsx';
import { emailInLink, Username } from './username.tsx';

const fields = ['password', 'first_name', 'last_name', 'phone', 'organization_name'];

export function AcceptInvitation() {
  const [token] = useState(() => new URLSearchParams(window.location.search).get('token') ?? '');
  const [email] = useState(emailInLink);
  const [firstName, setFirstName] = useState('');
  const [lastName, setLastName] = useState('');
  const [phone, setPhone] = useState('');
  const [organization, setOrganization] = useState('');
  const [password, setPassword] = useState('');
  const accept = useAction({ onSuccess: useLeadToSignIn('accepted', email) });
  const unnamed = fieldError(accept.error, 'organization_name');
  // The link says whether the invitation opens an organization. If the link has lost that, the API says so in its refusal.
  const [opensOrganization] = useState(() => new URLSearchParams(window.location.search).has('organization'));
  const namesOrganization = opensOrganization || organization !== '' || unnamed !== null;
  const submit = () =>
    accept.run({
      method: 'POST',
      path: '/auth/accept-invite',
      body: {
        token,
        password,
        ...(firstName === '' ? {} : { first_name: firstName }),
        ...(lastName === '' ? {} : { last_name: lastName }),
        ...(phone === '' ? {} : { phone }),
        ...(organization === '' ? {} : { organization_name: organization }),
      },
    });
  const signIn = (
    <>
      Already accepted?{' '}
      <Link href="/sign-in" className={authLink}>
        Sign in
      </Link>
    </>
  );
  if (token === '') {
    return (
      <AuthFrame title="Accept an invitation" footer={signIn}>
        <Notice tone="warn">
          Open the link in your invitation email: it contains a one-time token that is missing here.
        </Notice>
      </AuthFrame>
    );
  }
  return (
    <AuthFrame
      title="Accept your invitation"
      description={`Set a password${email === '' ? '' : ` for ${email}`}, then sign in with it.`}
      footer={signIn}
    >
      <Form onSubmit={submit}>
        <FormError error={accept.error} fields={fields} />
        <div className="grid grid-cols-2 gap-3">
          <TextField
            label="First name"
            autoComplete="given-name"
            value={firstName}
            onChange={setFirstName}
            error={fieldError(accept.error, 'first_name')}
          />
          <TextField
            label="Last name"
            autoComplete="family-name"
            value={lastName}
            onChange={setLastName}
            error={fieldError(accept.error, 'last_name')}
          />
        </div>
        <TextField
          label="Phone (optional)"
          type="tel"
          autoComplete="tel"
          value={phone}
          onChange={setPhone}
          error={fieldError(accept.error, 'phone')}
        />
        {namesOrganization && (
          <TextField
            label="Organization name"
            autoComplete="organization"
            hint="You create it and become its owner."
            value={organization}
            onChange={setOrganization}
            error={unnamed}
          />
        )}
        <Username email={email} />
        <TextField
          label="Password"
          type="password"
          autoComplete="new-password"
          required
          value={password}
          onChange={setPassword}
          error={fieldError(accept.error, 'password')}
        />
        <PasswordRules password={password} />
        <Button
          type="submit"
          look="primary"
          size="large"
          pending={accept.pending}
          disabled={!passwordMeetsRules(password)}
        >
          Accept invitation
        </Button>
      </Form>
    </AuthFrame>
  );
}
