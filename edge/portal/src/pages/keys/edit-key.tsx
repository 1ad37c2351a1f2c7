import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { changedFields, useAction } from '../../api/hooks.ts';
import type { ApiKey } from '../../api/types.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import { ConstraintFields } from './constraint-fields.tsx';
import { constraintsOf, constraintTexts } from './constraints.ts';
import { ExpiryField } from './expiry-field.tsx';
import { ScopePicker } from './scope-picker.tsx';

/** Edits a key. Changes show at once, and are undone if the gateway refuses them. */
export function EditKeyDialog({ apiKey: current, onClose }: { apiKey: ApiKey; onClose: () => void }) {
  // The key as it was when the dialog opened: `current` already shows the changes being saved.
  const [apiKey] = useState(current);
  const queries = useQueryClient();
  const toast = useToast();
  const path = `/api-keys/${apiKey.id}`;
  const [name, setName] = useState(apiKey.name);
  const [scopes, setScopes] = useState(apiKey.scopes);
  const [expiresAt, setExpiresAt] = useState(apiKey.expires_at);
  const [texts, setTexts] = useState(() => constraintTexts(apiKey));
  const save = useAction<ApiKey>({
    stale: ['/api-keys'],
    onSuccess: (saved) =>
      toast.say(
        <>
          <bdi>{saved.name}</bdi> was saved.
        </>,
      ),
    onDone: onClose,
    // As it was when the edit was sent, which somebody else may have changed since the dialog opened.
    onError: () => queries.setQueryData([path], current),
  });
  const submit = () => {
    if (expiresAt === '') return;
    const changes: Record<string, unknown> = changedFields(
      constraintsOf(constraintTexts(apiKey)),
      constraintsOf(texts),
    );
    if (name.trim() !== apiKey.name) changes.name = name.trim();
    if (!sameSet(scopes, apiKey.scopes)) changes.scopes = scopes;
    if (expiresAt !== apiKey.expires_at) changes.expires_at = expiresAt;
    if (Object.keys(changes).length === 0) return onClose();
    // A text that is no number is sent for the gateway to refuse, and not shown as an amount.
    const isAmount = typeof changes.spend_cap_usd !== 'string';
    const shown = isAmount ? changes : { ...changes, spend_cap_usd: current.spend_cap_usd };
    queries.setQueryData([path], { ...current, ...shown });
    save.run({ method: 'PATCH', path, body: changes });
  };
  return (
    <Dialog
      open
      onClose={onClose}
      keep
      wide
      title={
        <>
          Edit <bdi>{apiKey.name}</bdi>
        </>
      }
      description="Changes take effect with the key's next request. Changes to scopes and restrictions are recorded in the audit log."
    >
      <Form onSubmit={submit} className="grid gap-5">
        <FormError error={save.error} />
        <TextField
          label="Name"
          required
          maxLength={255}
          value={name}
          onChange={setName}
          error={fieldError(save.error, 'name')}
        />
        <ExpiryField value={expiresAt} onChange={setExpiresAt} error={fieldError(save.error, 'expires_at')} />
        <ConstraintFields type={apiKey.key_type} texts={texts} onChange={setTexts} error={save.error} />
        <ScopePicker
          type={apiKey.key_type}
          chosen={scopes}
          onChange={setScopes}
          error={fieldError(save.error, 'scopes')}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={save.pending}>
            Save changes
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

const sameSet = (one: readonly string[], other: readonly string[]): boolean =>
  one.length === other.length && one.every((item) => other.includes(item));
