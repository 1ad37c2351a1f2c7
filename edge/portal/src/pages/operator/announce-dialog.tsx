import { useState } from 'react';
import { useAction } from '../../api/hooks.ts';
import { currentMs } from '../../api/server-clock.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog, DialogActions } from '../../ui/dialog.tsx';
import { fieldError, TextArea, TextField } from '../../ui/field.tsx';
import { Form, FormError } from '../../ui/form.tsx';
import { Segments } from '../../ui/tabs.tsx';
import { useToast } from '../../ui/toast.tsx';
import { Consequences } from './consequences.tsx';
import { ModelField } from './model-field.tsx';
import { type Draft, withDate } from './retirement-preview.ts';

/** Announces a retirement, after showing everything that it will cause. */
export function AnnounceDialog({ wanted, onClose }: { wanted: string; onClose: () => void }) {
  const toast = useToast();
  const [model, setModel] = useState(wanted);
  const [date, setDate] = useState('');
  const [kind, setKind] = useState<'successor' | 'note'>('successor');
  const [successor, setSuccessor] = useState('');
  const [note, setNote] = useState('');
  const announce = useAction({
    stale: ['/admin/retirements', '/admin/models', '/models'],
    onSuccess: () => toast.say(`The retirement of ${model} was announced.`),
    onDone: onClose,
  });
  const sunsetAt = date === '' ? null : new Date(date);
  const now = new Date(currentMs());
  const undated: Draft = {
    model,
    deprecatedAt: now,
    sunsetAt: null,
    successor: kind === 'successor' ? successor : '',
    note: kind === 'note' ? note : '',
    withdrawnAt: null,
    mailed: false,
    mailings: [],
  };
  const draft = sunsetAt === null ? undated : withDate(undated, sunsetAt, now);
  const submit = () =>
    announce.run({
      method: 'POST',
      path: '/admin/retirements',
      body: {
        model,
        ...(sunsetAt === null ? {} : { sunset_at: sunsetAt.toISOString() }),
        ...(kind === 'successor' ? { replacement_model_name: successor } : { retirement_note: note.trim() }),
      },
    });
  return (
    <Dialog
      open
      onClose={onClose}
      keep
      wide
      title="Announce a retirement"
      description="The time of the announcement is final. The date can be set now or later, and moved until it has passed."
    >
      <Form onSubmit={submit} className="grid gap-5">
        <FormError error={announce.error} />
        <div className="grid gap-4 sm:grid-cols-2">
          <ModelField label="Model" value={model} onChange={setModel} error={fieldError(announce.error, 'model')} />
          <TextField
            label="Retires (local time)"
            type="datetime-local"
            hint="Leave empty to announce without a date, and without emails."
            value={date}
            onChange={setDate}
            error={fieldError(announce.error, 'sunset_at')}
          />
        </div>
        <div className="grid justify-items-start gap-3">
          <Segments
            label="What comes after"
            value={kind}
            onChange={(value) => setKind(value as 'successor' | 'note')}
            choices={[
              { value: 'successor', label: 'A successor' },
              { value: 'note', label: 'No successor: a note' },
            ]}
          />
          <div className="w-full">
            {kind === 'successor' ? (
              <ModelField
                label="Successor"
                value={successor}
                onChange={setSuccessor}
                except={model}
                error={fieldError(announce.error, 'replacement_model_name')}
              />
            ) : (
              <TextArea
                label="Why there is none"
                rows={2}
                maxLength={1000}
                value={note}
                onChange={(text) => setNote(text.replaceAll(/[\r\n]+/g, ' '))}
                error={fieldError(announce.error, 'retirement_note')}
              />
            )}
          </div>
        </div>
        {model !== '' && <Consequences draft={draft} />}
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button
            type="submit"
            look="primary"
            pending={announce.pending}
            disabled={model === '' || (kind === 'successor' ? successor === '' : note.trim() === '')}
          >
            Announce
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
