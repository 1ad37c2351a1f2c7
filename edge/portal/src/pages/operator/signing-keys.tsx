import { useState } from 'react';
import type { Static } from 'typebox';
import type { signingKeysSchema } from '../../../../routes/api/admin/signing-keys.ts';
import { useAction, useApi, useGet } from '../../api/hooks.ts';
import { Status } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Loaded } from '../../ui/failure.tsx';
import { FormError } from '../../ui/form.tsx';
import { Page } from '../../ui/page.tsx';
import { type Column, Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';

type SigningKeys = Static<typeof signingKeysSchema>;
type SigningKey = SigningKeys['data'][number];

const path = '/admin/signing-keys';
/** The gateway gives up a little earlier by itself. */
const endingTimeoutMs = 100_000;

/** The keys that sign session tokens, and how to replace the current one. */
export function SigningKeys() {
  const toast = useToast();
  const [ending, setEnding] = useState(false);
  const keys = useGet<SigningKeys>(path);
  const replace = useAction<SigningKeys>({
    stale: [path],
    onSuccess: () => toast.say('A new key now signs. Sessions are not affected.'),
  });
  return (
    <Page title="Signing keys" description="They sign session tokens. API keys do not depend on them.">
      <div className="grid items-start gap-5 sm:grid-cols-2">
        <Card
          title="Replace the key"
          description="The new key signs once every process knows it. The old one still verifies the tokens it signed until they expire, so nobody is signed out."
        >
          <div className="grid justify-items-start gap-4">
            <FormError error={replace.error} />
            <Button
              look="primary"
              pending={replace.pending}
              onClick={() => replace.run({ method: 'POST', path: `${path}/rotate` })}
            >
              New signing key
            </Button>
          </div>
        </Card>
        <Card
          title="A key has leaked"
          description="A new key signs, and older ones no longer verify. Every session ends at once, including this one."
        >
          <Button look="danger" onClick={() => setEnding(true)}>
            End all sessions
          </Button>
        </Card>
      </div>
      <Card flush title="Current keys">
        <Loaded of={keys}>
          {({ data }) => <Table label="Signing keys" rows={data} columns={columns} rowKey={(key) => key.kid} />}
        </Loaded>
      </Card>
      {ending && <CompromisedDialog onClose={() => setEnding(false)} />}
    </Page>
  );
}

const columns: readonly Column<SigningKey>[] = [
  { name: 'Key id', cell: (key) => <code className="font-mono text-xs wrap-anywhere">{key.kid}</code> },
  {
    name: 'Status',
    cell: (key) => (
      <Status tone={key.status === 'active' ? 'good' : 'neutral'}>
        <span className="capitalize">{key.status}</span>
      </Status>
    ),
  },
  { name: 'Signs from', sortBy: (key) => key.activated_at, cell: (key) => <Time value={key.activated_at} /> },
  { name: 'Verifies until', sortBy: (key) => key.expires_at ?? '', cell: (key) => <Time value={key.expires_at} /> },
];

function CompromisedDialog({ onClose }: { onClose: () => void }) {
  const api = useApi();
  const toast = useToast();
  const end = useAction<SigningKeys>({
    onSuccess: () => {
      toast.say('Every session has ended, and a new key now signs. Sign in again.');
      api.forget();
    },
  });
  return (
    <ConfirmDialog
      title="End all sessions?"
      description="Everyone in every organization is signed out, you included, and must sign in again. Calls with API keys continue. This cannot be undone."
      act="End all sessions"
      pending={end.pending}
      error={end.error}
      onAct={() =>
        end.run({ method: 'POST', path: `${path}/rotate`, body: { compromised: true }, timeoutMs: endingTimeoutMs })
      }
      onClose={onClose}
    />
  );
}
