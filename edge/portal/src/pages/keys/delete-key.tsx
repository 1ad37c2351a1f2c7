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
  const isConfirmed = asTyped(typed) === asTyped(apiKey.name);
  const toast = useToast();
  const remove = useAction({
    stale: ['/api-keys'],
    onSuccess: () =>
      toast.say(
        <>
          <bdi>{apiKey.name}</bdi> was deleted.
        </>,
      ),
    onDone: onDeleted,
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title={
        <>
          Delete <bdi>{apiKey.name}</bdi>?
        </>
      }
      description="Applications that use it stop working at once. This cannot be undone."
    >
      <Form onSubmit={() => isConfirmed && remove.run({ method: 'DELETE', path: `/api-keys/${apiKey.id}` })}>
        <FormError error={remove.error} />
        <TextField
          label="To confirm, type the key's name"
          autoFocus
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          placeholder={apiKey.name}
          value={typed}
          onChange={setTyped}
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="danger" pending={remove.pending} disabled={!isConfirmed}>
            Delete key
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

/** A name without what keyboards, above all of phones, change of it: quotation marks, dashes, dots, spaces, accents apart. */
const asTyped = (text: string): string =>
  text
    .normalize('NFC')
    .replace(/[\u2018-\u201b]/g, "'")
    .replace(/[\u201c-\u201f]|\u00ab\s*|\s*\u00bb/g, '"')
    .replace(/\u2026/g, '...')
    .replace(/[\u2013\u2014]|--/g, '-')
    .replace(/\s+/g, ' ')
    .trim();
