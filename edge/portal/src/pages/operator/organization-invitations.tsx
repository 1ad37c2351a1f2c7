import { useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Invitations } from '../organization/invitations.tsx';
import { InviteDialog } from '../organization/invite.tsx';

/** An organization's invitations. An operator can add one, for instance where no owner is left. */
export function OrganizationInvitations({ path }: { path: string }) {
  const [inviting, setInviting] = useState(false);
  const invitations = `${path}/invitations`;
  return (
    <>
      <Invitations
        path={invitations}
        title="Invitations"
        action={
          <Button size="small" icon="plus" onClick={() => setInviting(true)}>
            Invite someone
          </Button>
        }
      />
      {inviting && <InviteDialog path={invitations} mayMakeOwners onClose={() => setInviting(false)} />}
    </>
  );
}
