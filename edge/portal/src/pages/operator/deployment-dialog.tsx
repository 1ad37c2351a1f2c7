import { useState } from 'react';
import { changedFields, useAction } from '../../api/hooks.ts';
import { numberOrText } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { Checkbox, fieldError, SelectField, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import type { AdminDeployment } from './types.ts';
import { serverChoices, UpstreamFields } from './upstream-fields.tsx';

const stale = ['/admin/models', '/admin/deployments', '/models'];

export function DeploymentDialog({
  model,
  deployment,
  onClose,
}: {
  model: string;
  deployment?: AdminDeployment;
  onClose: () => void;
}) {
  const toast = useToast();
  const [address, setAddress] = useState({
    baseUrl: deployment?.base_url ?? '',
    secret: deployment?.secret_reference ?? '',
  });
  const [upstream, setUpstream] = useState(deployment?.upstream_model ?? '');
  const [weight, setWeight] = useState(String(deployment?.weight ?? 1));
  const [priority, setPriority] = useState(String(deployment?.priority ?? 0));
  const [concurrency, setConcurrency] = useState(String(deployment?.concurrency_limit ?? ''));
  const [dialect, setDialect] = useState<string>(deployment?.dialect ?? 'openai');
  const [enabled, setEnabled] = useState(deployment?.enabled ?? true);
  const [removing, setRemoving] = useState(false);
  const save = useAction({ stale, onSuccess: () => toast.say('Deployment saved.'), onDone: onClose });
  const { error } = save;
  const body = {
    ...(dialect === 'sandbox' ? {} : { base_url: address.baseUrl.trim() }),
    upstream_model: upstream.trim() || model,
    secret_reference: address.secret.trim(),
    weight: numberOrText(weight),
    priority: numberOrText(priority),
    // 0 means the default.
    concurrency_limit: concurrency.trim() === '' ? 0 : numberOrText(concurrency),
    dialect,
    enabled,
  };
  const [before] = useState(body);
  const submit = () => {
    if (deployment === undefined) save.run({ method: 'POST', path: '/admin/deployments', body: { model, ...body } });
    else {
      const path = `/admin/deployments/${deployment.id}`;
      save.run({ method: 'PATCH', path, body: changedFields(before, body) });
    }
  };
  if (deployment !== undefined && removing) {
    const back = () => setRemoving(false);
    return <RemoveDialog model={model} deployment={deployment} onBack={back} onClose={onClose} />;
  }
  return (
    <Dialog
      open
      onClose={onClose}
      keep
      title={deployment === undefined ? 'Add a deployment' : 'Edit the deployment'}
      description={model}
    >
      <Form onSubmit={submit}>
        <FormError error={error} />
        <SelectField
          label="Server"
          value={dialect}
          onChange={setDialect}
          error={fieldError(error, 'dialect')}
          choices={[...serverChoices, { value: 'sandbox', label: 'Built-in sandbox' }]}
        />
        {dialect !== 'sandbox' && <UpstreamFields value={address} onChange={setAddress} error={error} />}
        <TextField
          label="The upstream's name for the model"
          placeholder={model}
          value={upstream}
          onChange={setUpstream}
          error={fieldError(error, 'upstream_model')}
        />
        <div className="grid min-[22rem]:grid-cols-3 gap-3">
          <TextField
            label="Priority"
            inputMode="numeric"
            value={priority}
            onChange={setPriority}
            error={fieldError(error, 'priority')}
          />
          <TextField
            label="Weight"
            inputMode="numeric"
            value={weight}
            onChange={setWeight}
            error={fieldError(error, 'weight')}
          />
          <TextField
            label="Concurrency"
            inputMode="numeric"
            placeholder="Default"
            value={concurrency}
            onChange={setConcurrency}
            error={fieldError(error, 'concurrency_limit')}
          />
        </div>
        <Checkbox label="May serve" hint="When off, its status is Stopped." checked={enabled} onChange={setEnabled} />
        <DialogActions>
          {deployment !== undefined && (
            <Button look="quiet" className="mr-auto text-danger" onClick={() => setRemoving(true)}>
              Remove
            </Button>
          )}
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={save.pending}>
            Save deployment
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

type RemoveDialogProps = { model: string; deployment: AdminDeployment; onBack: () => void; onClose: () => void };

function RemoveDialog({ model, deployment, onBack, onClose }: RemoveDialogProps) {
  const toast = useToast();
  const remove = useAction({
    stale,
    onSuccess: () => toast.say('Deployment removed. Calls in flight finish.'),
    onDone: onClose,
  });
  return (
    <ConfirmDialog
      title="Remove the deployment?"
      description={`From then on ${model} is served by its other deployments, or not at all if there are none. Calls in flight finish.`}
      act="Remove"
      pending={remove.pending}
      error={remove.error}
      onAct={() => remove.run({ method: 'DELETE', path: `/admin/deployments/${deployment.id}` })}
      onClose={onBack}
    />
  );
}
