import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import type { ApiKey, CreatedKey } from '../../api/types.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, SelectField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { SecretPanel } from './secret-panel.tsx';

const hour = 3600;

export function RotateKeyDialog({ apiKey, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  const [grace, setGrace] = useState(String(24 * hour));
  const rotate = useAction<CreatedKey>({ stale: ['/api-keys'] });
  // The new secret may already be on its way, and can be shown only once.
  const cancel = () => {
    if (!rotate.pending) onClose();
  };
  return (
    <Dialog
      open
      onClose={cancel}
      keep
      secret={rotate.answer !== undefined}
      wide
      title={
        rotate.answer === undefined ? (
          <>
            Rotate <bdi>{apiKey.name}</bdi>
          </>
        ) : (
          <>
            <bdi>{apiKey.name}</bdi> has a new secret
          </>
        )
      }
      description={
        rotate.answer === undefined
          ? 'The key gets a new secret and keeps its scopes, restrictions and history.'
          : undefined
      }
    >
      {rotate.answer === undefined ? (
        <Form
          onSubmit={() =>
            rotate.run({
              method: 'POST',
              path: `/api-keys/${apiKey.id}/rotate`,
              body: { grace_period_seconds: Number(grace) },
            })
          }
        >
          <FormError error={rotate.error} />
          <SelectField
            label="The old secret keeps working for"
            value={grace}
            onChange={setGrace}
            error={fieldError(rotate.error, 'grace_period_seconds')}
            hint="Time to replace it wherever it is used."
            choices={[
              { value: '0', label: 'No time: it stops at once' },
              { value: String(hour), label: '1 hour' },
              { value: String(24 * hour), label: '1 day' },
              { value: String(7 * 24 * hour), label: '7 days' },
              { value: String(30 * 24 * hour), label: '30 days' },
            ]}
          />
          <DialogActions>
            <Button onClick={cancel}>Cancel</Button>
            <Button type="submit" look="primary" pending={rotate.pending}>
              Create new secret
            </Button>
          </DialogActions>
        </Form>
      ) : (
        <SecretPanel created={{ ...apiKey, key: rotate.answer.key }} onDone={onClose} />
      )}
    </Dialog>
  );
}
