import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import type { ApiKey } from '../../api/types.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';

export function DeleteKeyDialog({
  apiKey,
  onClose,
  onDeleted,
}: {
  apiKey: ApiKey;
  onClose: () => void;
  onDeleted: () => void;
}) {
  const [typed, setTyped] = useState('');
  const toast = useToast();
  const remove = useAction({
    stale: ['/api-keys'],
    onSuccess: () => toast.say(`${apiKey.name} was deleted.`),
    onDone: onDeleted,
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Delete ${apiKey.name}?`}
      description="Applications that use it stop working at once. This cannot be undone."
    >
      <Form onSubmit={() => typed === apiKey.name && remove.run({ method: 'DELETE', path: `/api-keys/${apiKey.id}` })}>
        <FormError error={remove.error} />
        <TextField
          label="To confirm, type the key's name"
          autoFocus
          autoComplete="off"
          placeholder={apiKey.name}
          value={typed}
          onChange={setTyped}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="danger" pending={remove.pending} disabled={typed !== apiKey.name}>
            Delete key
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
