import { comparable } from '#shared/comparable.ts';
import type { ApiError } from '../../api/error.ts';
import type { KeyType } from '../../api/types.ts';
import { fieldError, TextArea, TextField } from '../../ui/field.tsx';
import { useModels } from '../models/use-models.ts';
import { type ConstraintTexts, modelNames } from './constraints.ts';

type ConstraintFieldsProps = {
  type: KeyType;
  texts: ConstraintTexts;
  onChange: (texts: ConstraintTexts) => void;
  error: ApiError | null;
};

/** The restrictions that the gateway enforces for a key. An empty field means no restriction. */
export function ConstraintFields({ type, texts, onChange, error }: ConstraintFieldsProps) {
  const names = modelNames(texts.models);
  // The last name is still being typed, unless it is a model's name already.
  const last = /[^\n,;]*$/.exec(texts.models)![0].trim();
  const enabled = type === 'inference';
  const named = useModels({ search: last }, { enabled });
  const typed = (named.data?.data ?? []).some(({ id }) => id === last) ? '' : last;
  const offered = useModels({ search: typed }, { enabled });
  const ids = (offered.data?.data ?? []).map(({ id }) => id);
  const before = typed === '' ? names : names.slice(0, -1);
  const rest = ids.filter((id) => !names.includes(id) && comparable(id).includes(comparable(typed))).slice(0, 8);
  return (
    <div className="grid gap-4">
      {type === 'inference' && (
        <div className="grid gap-2">
          <TextArea
            label="Only these models"
            rows={2}
            spellCheck={false}
            placeholder="Every model you may use"
            className="font-mono text-sm"
            hint="One per line, or separated by commas."
            value={texts.models}
            onChange={(value) => onChange({ ...texts, models: value })}
            error={fieldError(error, 'model_allowlist')}
          />
          {rest.length > 0 && (
            <div className="flex flex-wrap gap-1.5">
              {rest.map((id) => (
                <button
                  key={id}
                  type="button"
                  onClick={() => onChange({ ...texts, models: [...before, id].join('\n') })}
                  className="max-w-full truncate rounded-full border border-line px-2.5 py-0.5 font-mono text-xs text-soft hover:bg-sunken hover:text-ink"
                >
                  + {id}
                </button>
              ))}
            </div>
          )}
        </div>
      )}
      <TextArea
        label="Only from these addresses"
        rows={2}
        spellCheck={false}
        placeholder="203.0.113.7, 10.0.0.0/8, 2001:db8::/32"
        className="font-mono text-sm"
        hint="IP addresses or CIDR ranges, separated by spaces or commas. Leave empty to allow any address."
        value={texts.addresses}
        onChange={(value) => onChange({ ...texts, addresses: value })}
        error={fieldError(error, 'ip_allowlist')}
      />
      {type === 'inference' && (
        <TextField
          label="Daily spend cap in USD"
          inputMode="decimal"
          placeholder="No cap"
          hint="Per UTC day; 0 blocks all spending. Your personal limit and the organization's also apply."
          value={texts.cap}
          onChange={(value) => onChange({ ...texts, cap: value })}
          error={fieldError(error, 'spend_cap_usd')}
        />
      )}
    </div>
  );
}
