import { defaultScopes } from '#shared/scopes.ts';
import { useIsAdmin } from '../../api/hooks.ts';
import type { KeyType } from '../../api/types.ts';
import { Checkbox, FieldError } from '../../ui/field.tsx';
import { allows, grouped } from './scopes.ts';

type ScopePickerProps = {
  type: KeyType;
  chosen: readonly string[];
  onChange: (scopes: string[]) => void;
  error: string | null;
};

/** Scopes by group, each with what it allows. Scopes that are not in the list (retired names) are kept and shown. */
export function ScopePicker({ type, chosen, onChange, error }: ScopePickerProps) {
  const isAdmin = useIsAdmin();
  const offered = defaultScopes(type, isAdmin || chosen.includes('usage:read_breakdown'));
  const retired = chosen.filter((name) => !(offered as readonly string[]).includes(name));
  const set = (names: readonly string[], on: boolean) =>
    onChange(on ? [...new Set([...chosen, ...names])] : chosen.filter((name) => !names.includes(name)));
  return (
    <fieldset className="grid gap-3" aria-invalid={error !== null || undefined}>
      <legend className="mb-1.5 text-sm font-medium">Scopes</legend>
      <FieldError text={error} />
      {[...grouped(offered)].map(([name, scopes]) => {
        const all = scopes.every((scope) => chosen.includes(scope));
        return (
          <div key={name} className="rounded-lg border border-line p-3">
            <div className="mb-2 flex items-center justify-between">
              <span className="text-sm font-medium">{name}</span>
              <button
                type="button"
                onClick={() => set(scopes, !all)}
                className="min-h-6 text-sm text-accent hover:underline"
              >
                {all ? 'None' : 'All'}
                <span className="sr-only"> of {name}</span>
              </button>
            </div>
            <div className="grid gap-2">
              {scopes.map((scope) => (
                <Checkbox
                  key={scope}
                  checked={chosen.includes(scope)}
                  onChange={(on) => set([scope], on)}
                  label={<code className="font-mono text-sm">{scope}</code>}
                  hint={allows(scope)}
                />
              ))}
            </div>
          </div>
        );
      })}
      {retired.map((scope) => (
        <Checkbox
          key={scope}
          checked
          onChange={() => set([scope], false)}
          label={<code className="font-mono text-sm">{scope}</code>}
          hint="A retired name; it grants its successor."
        />
      ))}
    </fieldset>
  );
}
