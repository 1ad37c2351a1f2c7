import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useAction, useApi, useGet } from '../../api/hooks.ts';
import type { Profile } from '../../api/types.ts';
import { localTimeZone } from '../../format/time.ts';
import { setTheme, type Theme, useTheme } from '../../shell/theme.ts';
import { Button } from '../../ui/button.tsx';
import { Card, Facts } from '../../ui/card.tsx';
import { Email } from '../../ui/email.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { fieldError, PasswordField, TextField } from '../../ui/field.tsx';
import { Form, FormError, useEdits } from '../../ui/form.tsx';
import { Page } from '../../ui/page.tsx';
import { Segments } from '../../ui/tabs.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';
import { NewPassword, passwordMeetsRules } from '../auth/new-password.tsx';
import { Username } from '../auth/username.tsx';
import { ChangeEmailDialog } from './change-email.tsx';

export function Settings() {
  const profile = useGet<Profile>('/profile');
  const theme = useTheme();
  const [changingEmail, setChangingEmail] = useState(false);
  return (
    <Page title="Settings" description="Your profile, your password and the look of the portal.">
      <Loaded of={profile}>
        {(data) => (
          <div className="grid items-start gap-5 lg:grid-cols-2">
            <div className="grid min-w-0 gap-5">
              <ProfileCard profile={data} />
              <Card
                title="Account"
                action={
                  <Button size="small" onClick={() => setChangingEmail(true)}>
                    Change email
                  </Button>
                }
              >
                <Facts
                  facts={[
                    ['Email', <Email key="email" address={data.email} />],
                    [
                      'Role',
                      <span key="role" className="capitalize">
                        {data.role}
                      </span>,
                    ],
                    ['Organization', <bdi key="organization">{data.organization.name}</bdi>],
                    [
                      'User id',
                      <code key="id" className="font-mono text-xs">
                        {data.id}
                      </code>,
                    ],
                    ['Member since', <Time key="since" value={data.created_at} />],
                  ]}
                />
                {changingEmail && <ChangeEmailDialog present={data.email} onClose={() => setChangingEmail(false)} />}
              </Card>
            </div>
            <div className="grid min-w-0 gap-5">
              <PasswordCard email={data.email} />
              <Card title="Appearance">
                <Segments
                  label="Theme"
                  value={theme}
                  onChange={(value) => setTheme(value as Theme)}
                  choices={[
                    { value: 'system', label: 'System' },
                    { value: 'light', label: 'Light' },
                    { value: 'dark', label: 'Dark' },
                  ]}
                />
                <p className="mt-3 text-sm text-faint">Times are shown in {localTimeZone()}, with UTC on hover.</p>
              </Card>
            </div>
          </div>
        )}
      </Loaded>
    </Page>
  );
}

function ProfileCard({ profile }: { profile: Profile }) {
  const toast = useToast();
  const queries = useQueryClient();
  const { fields, edits, type, saved } = useEdits({
    first_name: profile.first_name ?? '',
    last_name: profile.last_name ?? '',
    phone: profile.phone ?? '',
  });
  const save = useAction<Profile>({
    stale: ['/profile'],
    onSuccess: (answer) => {
      queries.setQueryData(['/profile'], answer);
      saved();
      toast.say('Profile saved.');
    },
  });
  return (
    <Card title="Profile">
      <Form onSubmit={() => save.run({ method: 'PATCH', path: '/profile', body: edits })}>
        <FormError error={save.error} />
        <div className="grid min-[17rem]:grid-cols-2 gap-3">
          <TextField
            label="First name"
            autoComplete="given-name"
            value={fields.first_name}
            onChange={(first_name) => type({ first_name })}
            error={fieldError(save.error, 'first_name')}
          />
          <TextField
            label="Last name"
            autoComplete="family-name"
            value={fields.last_name}
            onChange={(last_name) => type({ last_name })}
            error={fieldError(save.error, 'last_name')}
          />
        </div>
        <TextField
          label="Phone"
          type="tel"
          autoComplete="tel"
          value={fields.phone}
          onChange={(phone) => type({ phone })}
          error={fieldError(save.error, 'phone')}
        />
        <div>
          <Button type="submit" look="primary" pending={save.pending}>
            Save profile
          </Button>
        </div>
      </Form>
    </Card>
  );
}

function PasswordCard({ email }: { email: string }) {
  const api = useApi();
  const toast = useToast();
  const [current, setCurrent] = useState('');
  const [password, setPassword] = useState('');
  const change = useAction({
    onSuccess: () => {
      toast.say('Your password has been changed. Sign in with the new one.');
      api.forget();
    },
  });
  return (
    <Card title="Password" description="Changing it ends all your sessions, including this one.">
      <Form
        onSubmit={() =>
          change.run({
            method: 'PUT',
            path: '/auth/password',
            body: { current_password: current, new_password: password },
          })
        }
      >
        <FormError error={change.error} />
        <Username email={email} />
        <PasswordField
          label="Current password"
          autoComplete="current-password"
          value={current}
          onChange={setCurrent}
          error={fieldError(change.error, 'current_password')}
        />
        <NewPassword value={password} onChange={setPassword} error={fieldError(change.error, 'new_password')} />
        <div>
          <Button type="submit" pending={change.pending} disabled={current === '' || !passwordMeetsRules(password)}>
            Change password
          </Button>
        </div>
      </Form>
    </Card>
  );
}
