import { useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { Invitations } from '../organization/invitations.tsx';
import { InviteDialog } from '../organization/invite.tsx';

/** An organization's invitations, and one by an operator, as for an organization that has no owner left. */
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
            Invite somebody
          </Button>
        }
      />
      {inviting && <InviteDialog path={invitations} mayMakeOwners onClose={() => setInviting(false)} />}
    </>
  );
}
