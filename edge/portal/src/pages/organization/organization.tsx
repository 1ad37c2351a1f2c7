import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { useAction, useClaims, useGet } from '../../api/hooks.ts';
import type { Organization } from '../../api/types.ts';
import { useSearchParameter } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError, useEdits } from '../../ui/form.tsx';
import { Page } from '../../ui/page.tsx';
import { Tabs } from '../../ui/tabs.tsx';
import { useToast } from '../../ui/toast.tsx';
import { Invitations } from './invitations.tsx';
import { InviteDialog } from './invite.tsx';
import { Members } from './members.tsx';

const invitations = '/invitations';

export function OrganizationPage() {
  const claims = useClaims();
  const organization = useGet<Organization>('/organization');
  const [tab, setTab] = useSearchParameter('tab', 'members');
  const [inviting, setInviting] = useState(false);
  return (
    <Page
      title={organization.data?.name ?? 'Organization'}
      badge={organization.data?.status === 'suspended' ? <Badge tone="danger">Suspended</Badge> : undefined}
      description="Who is in it, and what they may do."
      actions={
        <Button look="primary" icon="plus" onClick={() => setInviting(true)}>
          Invite someone
        </Button>
      }
    >
      <Tabs
        label="Organization"
        value={tab}
        onChange={setTab}
        tabs={[
          { value: 'members', label: 'Members', content: <Members /> },
          { value: 'invitations', label: 'Invitations', content: <Invitations path={invitations} /> },
          { value: 'settings', label: 'Settings', content: <Rename organization={organization.data} /> },
        ]}
      />
      {inviting && (
        <InviteDialog path={invitations} mayMakeOwners={claims.role === 'owner'} onClose={() => setInviting(false)} />
      )}
    </Page>
  );
}

function Rename({ organization }: { organization: Organization | undefined }) {
  const toast = useToast();
  const queries = useQueryClient();
  const { fields, type, saved } = useEdits({ name: organization?.name ?? '' });
  const save = useAction<Organization>({
    stale: ['/organization', '/profile'],
    onSuccess: (answer) => {
      queries.setQueryData(['/organization'], answer);
      saved();
      toast.say('Name saved.');
    },
  });
  return (
    <Card title="Name" className="max-w-lg">
      <Form onSubmit={() => save.run({ method: 'PATCH', path: '/organization', body: fields })}>
        <FormError error={save.error} />
        <TextField
          label="Organization name"
          required
          maxLength={255}
          value={fields.name}
          onChange={(name) => type({ name })}
          error={fieldError(save.error, 'name')}
        />
        <div>
          <Button type="submit" look="primary" pending={save.pending}>
            Save name
          </Button>
        </div>
      </Form>
    </Card>
  );
}
