import { useState } from 'react';
import { changedFields, useAction } from '../../api/hooks.ts';
import { numberOrText } from '../../format/number.ts';
import { navigate } from '../../router/router.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, SelectField, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { useToast } from '../../ui/toast.tsx';
import { OperationsField } from './operations-field.tsx';
import type { AdminModel } from './types.ts';

/** Adds a model, or edits everything about one but its name. */
export function ModelDialog({ model, onClose }: { model?: AdminModel; onClose: () => void }) {
  const toast = useToast();
  const [name, setName] = useState('');
  const [displayName, setDisplayName] = useState(model?.display_name ?? '');
  const [owner, setOwner] = useState(model?.owned_by ?? '');
  const [visibility, setVisibility] = useState<string>(model?.visibility ?? 'public');
  const [chosen, setChosen] = useState<readonly string[]>(model?.operations ?? ['chat_completions']);
  const [context, setContext] = useState(String(model?.context_window ?? ''));
  const [answer, setAnswer] = useState(String(model?.max_output_tokens ?? ''));
  const save = useAction<AdminModel>({
    stale: ['/admin/models', '/models'],
    onSuccess: (saved) =>
      toast.say(
        <>
          <bdi>{saved.display_name}</bdi> was saved.
        </>,
      ),
    onDone: (saved) => {
      if (model === undefined) navigate(`/operator/models/${encodeURIComponent(saved.id)}`);
      else onClose();
    },
  });
  /** Null removes a number; a new model has none to remove. */
  const tokens = (field: string, text: string) =>
    text.trim() === '' && model === undefined ? {} : { [field]: text.trim() === '' ? null : numberOrText(text) };
  const body = {
    operations: chosen,
    visibility,
    ...(displayName === '' ? {} : { display_name: displayName }),
    ...(owner === '' ? {} : { owned_by: owner }),
    ...tokens('context_window', context),
    ...tokens('max_output_tokens', answer),
  };
  const [before] = useState(body);
  const submit = () => {
    if (model === undefined) save.run({ method: 'POST', path: '/admin/models', body: { name: name.trim(), ...body } });
    else {
      const path = `/admin/models/${encodeURIComponent(model.id)}`;
      save.run({ method: 'PATCH', path, body: changedFields(before, body) });
    }
  };
  return (
    <Dialog
      open
      onClose={onClose}
      keep
      title={model === undefined ? 'Add a model' : 'Edit the model'}
      description={
        model === undefined
          ? 'Deployments and prices come next.'
          : 'An operation you remove is refused from then on; a private model is seen only by organizations with a grant.'
      }
    >
      <Form onSubmit={submit}>
        <FormError error={save.error} />
        {model === undefined && (
          <TextField
            label="Name"
            autoFocus
            required
            spellCheck={false}
            className="font-mono"
            hint="What clients send as model, e.g. org/name:tag. It can never be changed."
            value={name}
            onChange={setName}
            error={fieldError(save.error, 'name')}
          />
        )}
        <div className="grid min-[22rem]:grid-cols-2 gap-3">
          <TextField
            label="Display name"
            required={model !== undefined}
            value={displayName}
            onChange={setDisplayName}
            error={fieldError(save.error, 'display_name')}
          />
          <TextField
            label="Made by"
            required={model !== undefined}
            value={owner}
            onChange={setOwner}
            error={fieldError(save.error, 'owned_by')}
          />
          <TextField
            label="Context window"
            inputMode="numeric"
            value={context}
            onChange={setContext}
            error={fieldError(save.error, 'context_window')}
          />
          <TextField
            label="Longest answer"
            inputMode="numeric"
            hint="In tokens, like the context window. Leave empty if unknown."
            value={answer}
            onChange={setAnswer}
            error={fieldError(save.error, 'max_output_tokens')}
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
        <OperationsField chosen={chosen} onChange={setChosen} error={save.error} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" look="primary" pending={save.pending}>
            {model === undefined ? 'Add model' : 'Save model'}
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
