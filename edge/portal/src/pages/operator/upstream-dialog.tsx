import { useState } from 'react';
import type { Static } from 'typebox';
import type { registeredSchema } from '../../../../routes/api/admin/upstreams.ts';
import { useAction } from '../../api/hooks.ts';
import { formatCount } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, SelectField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import { OperationsField } from './operations-field.tsx';
import { serverChoices, UpstreamFields } from './upstream-fields.tsx';

/** A server may list thousands of models. The gateway gives up a little earlier by itself. */
const registrationTimeoutMs = 70_000;

/** Registers every model that a server lists. Where one is registered already, only what the form names is changed. */
export function UpstreamDialog({ onClose }: { onClose: () => void }) {
  const toast = useToast();
  const [address, setAddress] = useState({ baseUrl: '', secret: '' });
  const [dialect, setDialect] = useState('');
  const [operations, setOperations] = useState<readonly string[]>([]);
  const register = useAction<Static<typeof registeredSchema>>({
    stale: ['/admin/models', '/admin/deployments', '/models'],
    onSuccess: ({ models, deployments_created }) => {
      const listed = models.length === 1 ? 'model is' : 'models are';
      const added = deployments_created === 1 ? 'deployment' : 'deployments';
      toast.say(
        `${formatCount(models.length)} ${listed} in the catalog, with ${formatCount(deployments_created)} new ${added}.`,
      );
    },
    onDone: onClose,
  });
  const { error } = register;
  const submit = () =>
    register.run({
      method: 'POST',
      path: '/admin/upstreams',
      body: {
        base_url: address.baseUrl.trim(),
        ...(address.secret.trim() === '' ? {} : { secret_reference: address.secret.trim() }),
        ...(dialect === '' ? {} : { dialect }),
        ...(operations.length === 0 ? {} : { operations }),
      },
      timeoutMs: registrationTimeoutMs,
    });
  return (
    <Dialog
      open
      onClose={onClose}
      keep
      title="Register an upstream"
      description="Every model it lists gets a deployment there; models missing from the catalog are added."
    >
      <Form onSubmit={submit}>
        <FormError error={error} />
        <UpstreamFields autoFocus value={address} onChange={setAddress} error={error} />
        <SelectField
          label="Server"
          value={dialect}
          onChange={setDialect}
          error={fieldError(error, 'dialect')}
          choices={[{ value: '', label: 'Unspecified' }, ...serverChoices]}
        />
        <OperationsField
          chosen={operations}
          onChange={setOperations}
          error={error}
          hint="For all of its models. If you choose none, those of a new model are guessed from what the upstream says about it or from its name, and known models keep theirs."
        />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={register.pending}>
            Register upstream
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
