import { useState } from 'react';
import { useAction, useGet } from '../../api/hooks.ts';
import type { Profile } from '../../api/types.ts';
import { navigate } from '../../router/router.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Email } from '../../ui/email.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Page } from '../../ui/page.tsx';
import { useToast } from '../../ui/toast.tsx';
import { emailInLink } from '../auth/username.tsx';

/** Where the link leads that was mailed to a new address. It changes nothing by itself: programs that check mails open links. */
export function ConfirmEmail() {
  const [token] = useState(() => new URLSearchParams(window.location.search).get('token') ?? '');
  const [email] = useState(emailInLink);
  const profile = useGet<Profile>('/profile');
  const toast = useToast();
  const confirm = useAction<Profile>({
    stale: ['/profile', '/members', '/admin/users'],
    onSuccess: (changed) => toast.say(`You now sign in with ${changed.email}.`),
    onDone: () => navigate('/settings', { replace: true }),
  });
  return (
    <Page title="Confirm your new email address" parent={{ name: 'Settings', href: '/settings' }}>
      <Card className="w-full max-w-xl">
        {token === '' ? (
          <Notice tone="warn">Open the link in the email: it contains a one-time token that is missing here.</Notice>
        ) : (
          <Form onSubmit={() => confirm.run({ method: 'POST', path: '/auth/email/confirm', body: { token } })}>
            <FormError error={confirm.error} />
            <Loaded of={profile}>
              {(data) => (
                <p className="text-base text-soft wrap-anywhere">
                  Once you confirm it, you sign in with{' '}
                  {email === '' ? 'the address to which this link was sent' : <Email address={email} />} instead of{' '}
                  <Email address={data.email} />. You stay signed in, and your API keys go on.
                </p>
              )}
            </Loaded>
            <div>
              <Button type="submit" look="primary" pending={confirm.pending}>
                Confirm address
              </Button>
            </div>
          </Form>
        )}
      </Card>
    </Page>
  );
}
