import { useState } from 'react';
import { useAction, useGet, useSession } from '../../api/hooks.ts';
import type { InvitedTo, Profile } from '../../api/types.ts';
import { Link } from '../../router/link.tsx';
import { Button } from '../../ui/button.tsx';
import { Email } from '../../ui/email.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Skeleton } from '../../ui/skeleton.tsx';
import { AuthFrame, authLink, useLeadToSignIn } from './auth-frame.tsx';
import { NewPassword, passwordMeetsRules } from './new-password.tsx';
import { Username } from './username.tsx';

/** What the invitation is to is asked before anybody types: a spent one is refused at once. */
export function AcceptInvitation() {
  const [token] = useState(() => new URLSearchParams(window.location.search).get('token') ?? '');
  const invitation = useGet<InvitedTo>('/auth/invitation', undefined, { body: { token }, enabled: token !== '' });
  const signIn = (
    <>
      Already accepted?{' '}
      <Link href="/sign-in" className={authLink}>
        Sign in
      </Link>
    </>
  );
  if (token === '' || invitation.error?.status === 400) {
    return (
      <AuthFrame title="Accept an invitation" footer={signIn}>
        <Notice tone="warn">
          {invitation.error?.message ??
            'Open the link in your invitation email: it contains a one-time token that is missing here.'}
        </Notice>
      </AuthFrame>
    );
  }
  return (
    <AuthFrame
      title="Accept your invitation"
      description={invitation.data && <Sentence invitation={invitation.data} />}
      footer={signIn}
    >
      <Loaded of={invitation} skeleton={<Skeleton className="h-96 w-full" />}>
        {(data) => <AcceptForm token={token} invitation={data} />}
      </Loaded>
    </AuthFrame>
  );
}

function Sentence({ invitation: { email, role, organization } }: { invitation: InvitedTo }) {
  return (
    <>
      {organization === null ? (
        'Create an organization and become its owner.'
      ) : (
        <>
          Join <bdi>{organization.name}</bdi> as {role === 'member' ? 'a' : 'an'} {role}.
        </>
      )}{' '}
      Set a password for <Email address={email} />, then sign in with it.
    </>
  );
}

function AcceptForm({ token, invitation: { email, organization: joined } }: { token: string; invitation: InvitedTo }) {
  const [firstName, setFirstName] = useState('');
  const [lastName, setLastName] = useState('');
  const [phone, setPhone] = useState('');
  const [organization, setOrganization] = useState('');
  const [password, setPassword] = useState('');
  const accept = useAction({ onSuccess: useLeadToSignIn('accepted', email) });
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
  return (
    <Form onSubmit={submit}>
      <SignsOut />
      <FormError error={accept.error} />
      <div className="grid min-[17rem]:grid-cols-2 gap-3">
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
      {joined === null && (
        <TextField
          label="Organization name"
          autoComplete="organization"
          hint="You create it and become its owner."
          value={organization}
          onChange={setOrganization}
          error={fieldError(accept.error, 'organization_name')}
        />
      )}
      <Username email={email} />
      <NewPassword
        label="Password"
        value={password}
        onChange={setPassword}
        error={fieldError(accept.error, 'password')}
      />
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
  );
}

/** Tells whoever is signed in here that accepting signs them out: what they are typing in another tab would be lost. */
function SignsOut() {
  const isSignedIn = useSession().status === 'signed-in';
  const profile = useGet<Profile>('/profile', undefined, { enabled: isSignedIn });
  if (!isSignedIn || profile.data === undefined) return null;
  return (
    <Notice tone="warn">
      You are signed in as <Email address={profile.data.email} />. Accepting signs you out, in every tab.
    </Notice>
  );
}
