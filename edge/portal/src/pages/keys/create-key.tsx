import { type ReactNode, useEffect, useState } from 'react';
import { defaultScopes } from '#shared/scopes.ts';
import { useAction, useIsAdmin } from '../../api/hooks.ts';
import type { CreatedKey, KeyType } from '../../api/types.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Icon } from '../../ui/icons.tsx';
import { Segments } from '../../ui/tabs.tsx';
import { ConstraintFields } from './constraint-fields.tsx';
import { constraintFieldNames, constraintsOf, constraintTexts } from './constraints.ts';
import { ExpiryField } from './expiry-field.tsx';
import { ScopePicker } from './scope-picker.tsx';
import { SecretPanel } from './secret-panel.tsx';

export function CreateKeyDialog({ open, onClose }: { open: boolean; onClose: () => void }) {
  const [created, setCreated] = useState<CreatedKey | null>(null);
  // The form is done with: a reload must not open another one.
  useEffect(() => {
    if (open && created !== null) onClose();
  }, [open, created, onClose]);
  const close = () => {
    setCreated(null);
    onClose();
  };
  return (
    <Dialog
      // If the form was dismissed before the secret arrived, the secret is shown all the same: it can never be shown again.
      open={open || created !== null}
      onClose={close}
      keep
      secret={created !== null}
      wide
      title={
        created === null ? (
          'Create an API key'
        ) : (
          <>
            <bdi>{created.name}</bdi> is ready
          </>
        )
      }
      description={created === null ? 'It acts as you, within the scopes and restrictions you choose here.' : undefined}
    >
      {created === null ? (
        <CreateKeyForm onCreated={setCreated} onCancel={close} />
      ) : (
        <SecretPanel created={created} onDone={close} />
      )}
    </Dialog>
  );
}

function CreateKeyForm({ onCreated, onCancel }: { onCreated: (created: CreatedKey) => void; onCancel: () => void }) {
  const isAdmin = useIsAdmin();
  const [name, setName] = useState('');
  const [type, setType] = useState<KeyType>('inference');
  const [scopes, setScopes] = useState<string[]>(() => [...defaultScopes('inference', isAdmin)]);
  const [expiresAt, setExpiresAt] = useState<string | null>(null);
  const [constraints, setConstraints] = useState(() => constraintTexts());
  const create = useAction<CreatedKey>({ stale: ['/api-keys'], onSuccess: onCreated });
  const chooseType = (next: string) => {
    const keyType = next as KeyType;
    setType(keyType);
    setScopes([...defaultScopes(keyType, isAdmin)]);
    if (keyType === 'management') setConstraints({ ...constraints, models: '', cap: '' });
  };
  const submit = () => {
    if (expiresAt === '') return;
    create.run({
      method: 'POST',
      path: '/api-keys',
      body: {
        name: name.trim(),
        key_type: type,
        scopes,
        expires_at: expiresAt,
        ...constraintsOf(constraints),
      },
    });
  };
  return (
    <Form onSubmit={submit} className="grid gap-5">
      <FormError error={create.error} />
      <TextField
        label="Name"
        autoFocus
        required
        maxLength={255}
        placeholder="Where it is used, e.g. checkout production"
        value={name}
        onChange={setName}
        error={fieldError(create.error, 'name')}
      />
      <div className="grid justify-items-start gap-1.5">
        <span className="text-sm font-medium">Type</span>
        <Segments
          label="Type"
          value={type}
          onChange={chooseType}
          choices={[
            { value: 'inference', label: 'Inference' },
            { value: 'management', label: 'Management' },
          ]}
        />
        <p className="text-sm text-faint">
          {type === 'inference'
            ? 'Calls models. It cannot read usage or billing.'
            : 'Automates usage, billing and limits. It cannot call models.'}
        </p>
      </div>
      <ExpiryField value={expiresAt} onChange={setExpiresAt} error={fieldError(create.error, 'expires_at')} />
      <Section title={`Scopes · ${scopes.length} chosen`} open={fieldError(create.error, 'scopes') !== null}>
        <ScopePicker type={type} chosen={scopes} onChange={setScopes} error={fieldError(create.error, 'scopes')} />
      </Section>
      <Section
        title="Restrictions"
        open={constraintFieldNames.some((field) => fieldError(create.error, field) !== null)}
      >
        <ConstraintFields type={type} texts={constraints} onChange={setConstraints} error={create.error} />
      </Section>
      <DialogActions>
        <Button onClick={onCancel}>Cancel</Button>
        <Button type="submit" look="primary" pending={create.pending}>
          Create key
        </Button>
      </DialogActions>
    </Form>
  );
}

/** Collapsed until someone wants it or something in it is wrong. */
function Section({ title, open, children }: { title: string; open: boolean; children: ReactNode }) {
  return (
    <details open={open || undefined} className="group rounded-lg border border-line">
      <summary className="flex list-none items-center justify-between px-3.5 py-2.5 text-sm font-medium">
        {title}
        <Icon name="down" className="text-faint transition-transform group-open:rotate-180" />
      </summary>
      <div className="border-t border-line p-3.5">{children}</div>
    </details>
  );
}
