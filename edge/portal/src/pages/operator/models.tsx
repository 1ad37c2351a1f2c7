import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { numberOrText } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { navigate } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { EmptyState } from '../../ui/empty-state.tsx';
import { Checkbox, fieldError, SelectField, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Page } from '../../ui/page.tsx';
import type { Column } from '../../ui/table.tsx';
import { RetiringBadge, ServingStatus } from '../models/model-badges.tsx';
import { operationName } from '../models/operations.ts';
import { priceSummary } from '../models/prices.ts';
import { PagedCard } from './paged-card.tsx';
import type { AdminModel } from './types.ts';

export function OperatorModels() {
  const [creating, setCreating] = useState(false);
  return (
    <Page
      title="Model catalog"
      description="Every model with its deployments, prices and grants."
      actions={
        <Button look="primary" icon="plus" onClick={() => setCreating(true)}>
          Add model
        </Button>
      }
    >
      <PagedCard<AdminModel>
        label="Model catalog"
        wordy
        path="/admin/models"
        columns={columns}
        rowKey={(model) => model.id}
        empty={<EmptyState icon="server" title="No models yet" />}
      />
      {creating && <CreateModel onClose={() => setCreating(false)} />}
    </Page>
  );
}

const columns: readonly Column<AdminModel>[] = [
  {
    name: 'Model',
    sortBy: (model) => model.id,
    cell: (model) => (
      <div className="min-w-0">
        <span className="flex flex-wrap items-center gap-2">
          <Link
            href={`/operator/models/${encodeURIComponent(model.id)}`}
            className="font-medium wrap-anywhere hover:underline"
          >
            {model.display_name}
          </Link>
          {model.visibility === 'private' && <Badge>Private</Badge>}
          <RetiringBadge model={model} />
        </span>
        <code className="font-mono text-xs text-faint wrap-anywhere">{model.id}</code>
      </div>
    ),
  },
  {
    name: 'Operations',
    cell: (model) => (
      <span className="flex flex-wrap gap-1">
        {model.operations.map((one) => (
          <Badge key={one}>{operationName(one)}</Badge>
        ))}
      </span>
    ),
  },
  {
    name: 'Deployments',
    end: true,
    sortBy: (model) => model.deployments.length,
    cell: (model) => model.deployments.length,
  },
  { name: 'Price per million', cell: (model) => priceSummary(currentPrice(model)) },
  { name: 'Status', cell: (model) => <ServingStatus model={model} /> },
];

/** The version in force now: the last that has begun. */
function currentPrice(model: AdminModel) {
  const now = Date.now();
  return (
    model.prices
      .filter((price) => Date.parse(price.effective_from) <= now)
      .sort((a, b) => a.effective_from.localeCompare(b.effective_from))
      .at(-1) ?? null
  );
}

const operations = [
  'chat_completions',
  'completions',
  'embeddings',
  'images_generations',
  'audio_transcriptions',
  'audio_translations',
  'audio_speech',
  'realtime_transcription',
];

function CreateModel({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState('');
  const [displayName, setDisplayName] = useState('');
  const [owner, setOwner] = useState('');
  const [visibility, setVisibility] = useState('public');
  const [chosen, setChosen] = useState<readonly string[]>(['chat_completions']);
  const [context, setContext] = useState('');
  const create = useAction<AdminModel>({
    stale: ['/admin/models', '/models'],
    onSuccess: (model) => navigate(`/operator/models/${encodeURIComponent(model.id)}`),
  });
  const submit = () =>
    create.run({
      method: 'POST',
      path: '/admin/models',
      body: {
        name: name.trim(),
        operations: chosen,
        visibility,
        ...(displayName === '' ? {} : { display_name: displayName }),
        ...(owner === '' ? {} : { owned_by: owner }),
        ...(context === '' ? {} : { context_window: numberOrText(context) }),
      },
    });
  return (
    <Dialog open onClose={onClose} keep title="Add a model" description="Deployments and prices come next.">
      <Form onSubmit={submit}>
        <FormError
          error={create.error}
          fields={['name', 'display_name', 'owned_by', 'operations', 'context_window', 'visibility']}
        />
        <TextField
          label="Name"
          autoFocus
          spellCheck={false}
          className="font-mono"
          hint="What clients send as model, e.g. org/name:tag. It never changes."
          value={name}
          onChange={setName}
          error={fieldError(create.error, 'name')}
        />
        <div className="grid grid-cols-2 gap-3">
          <TextField
            label="Display name"
            value={displayName}
            onChange={setDisplayName}
            error={fieldError(create.error, 'display_name')}
          />
          <TextField label="Made by" value={owner} onChange={setOwner} error={fieldError(create.error, 'owned_by')} />
          <TextField
            label="Context window"
            inputMode="numeric"
            value={context}
            onChange={setContext}
            error={fieldError(create.error, 'context_window')}
          />
          <SelectField
            label="Visibility"
            value={visibility}
            onChange={setVisibility}
            choices={[
              { value: 'public', label: 'Public' },
              { value: 'private', label: 'Private, by grant' },
            ]}
          />
        </div>
        <fieldset className="grid grid-cols-2 gap-2">
          <legend className="mb-1.5 text-sm font-medium">Operations</legend>
          {operations.map((operation) => (
            <Checkbox
              key={operation}
              label={operationName(operation)}
              checked={chosen.includes(operation)}
              onChange={(on) => setChosen(on ? [...chosen, operation] : chosen.filter((one) => one !== operation))}
            />
          ))}
        </fieldset>
        {fieldError(create.error, 'operations') !== null && (
          <p role="alert" className="text-sm text-danger">
            {fieldError(create.error, 'operations')}
          </p>
        )}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={create.pending}>
            Add model
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
