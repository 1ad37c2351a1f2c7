import {
  type InputHTMLAttributes,
  type ReactNode,
  type SelectHTMLAttributes,
  type TextareaHTMLAttributes,
  useEffect,
  useId,
  useRef,
  useState,
} from 'react';
import type { ApiError } from '../api/error.ts';
import { classNames } from './class-names.ts';
import { Icon } from './icons.tsx';

const control =
  'w-full rounded-md border border-edge bg-surface px-3 text-base text-ink disabled:opacity-60 aria-invalid:border-danger';

/**
 * The API's complaint about one field: the error's `param` names the field or something inside it. The label says which field it is, so the
 * API's name for it is left out.
 */
export function fieldError(error: ApiError | null | undefined, name: string): string | null {
  const param = error?.param;
  if (param === null || param === undefined || error === null || error === undefined) return null;
  if (param === name) {
    const text = error.message.replace(`Invalid value for \`${name}\`: `, '');
    return text.charAt(0).toUpperCase() + text.slice(1);
  }
  return param.startsWith(`${name}.`) || param.startsWith(`${name}[`) ? error.message : null;
}

type FieldProps = {
  label: ReactNode;
  hint?: ReactNode;
  error?: string | null;
  children: (ids: {
    id: string;
    'aria-describedby': string | undefined;
    'aria-invalid': boolean | undefined;
  }) => ReactNode;
};

/** A label, a control, a hint, and the API's error about it. */
function Field({ label, hint, error, children }: FieldProps) {
  const id = useId();
  const hintId = `${id}hint`;
  const errorId = `${id}error`;
  const described = [hint === undefined ? '' : hintId, error == null ? '' : errorId].filter(Boolean).join(' ');
  return (
    <div className="grid min-w-0 grid-cols-[minmax(0,1fr)] content-start gap-1.5">
      <label htmlFor={id} className="text-sm font-medium text-ink">
        {label}
      </label>
      {children({ id, 'aria-describedby': described || undefined, 'aria-invalid': error == null ? undefined : true })}
      <FieldError id={errorId} text={error} />
      {hint !== undefined && (
        <p id={hintId} className="text-sm text-faint">
          {hint}
        </p>
      )}
    </div>
  );
}

/** What is wrong with a field. FormError looks for it, to say the same nowhere else. */
export function FieldError({ id, text }: { id?: string; text: string | null | undefined }) {
  if (text == null) return null;
  return (
    <p
      id={id}
      data-field-error
      role="alert"
      className="flex scroll-mt-20 items-start gap-1.5 text-sm text-danger wrap-anywhere"
    >
      <Icon name="warning" className="mt-0.5 size-3.5" />
      {text}
    </p>
  );
}

type TextFieldProps = Omit<InputHTMLAttributes<HTMLInputElement>, 'onChange'> & {
  label: ReactNode;
  hint?: ReactNode;
  error?: string | null;
  /** At the end of the field, over it. */
  button?: ReactNode;
  onChange: (value: string) => void;
};

/** With a last day a browser's field takes four digits for a year. Otherwise six, most of which are no date to a program. */
const lastDays: Readonly<Record<string, string>> = { date: '9999-12-31', 'datetime-local': '9999-12-31T23:59' };

/** What a form lacks in this field; null if nothing. Of a date that is not typed to its end the value is empty, as of none. */
export const lackOf = ({ validity }: HTMLInputElement): string | null => {
  if (validity.badInput) return 'Complete this, or clear it.';
  return validity.valueMissing ? 'Fill this in.' : null;
};

export function TextField({ label, hint, error, button, onChange, className, ...rest }: TextFieldProps) {
  const [lack, setLack] = useState<string | null>(null);
  return (
    <Field label={label} hint={hint} error={lack ?? error}>
      {(ids) => (
        <div className="relative">
          <input
            max={lastDays[rest.type ?? '']}
            {...rest}
            {...ids}
            onInvalid={({ currentTarget }) => setLack(lackOf(currentTarget))}
            // A date that was never complete is cleared without a change of its value.
            onBlur={({ currentTarget }) => lackOf(currentTarget) === null && setLack(null)}
            onChange={(event) => {
              setLack(null);
              onChange(event.target.value);
            }}
            className={classNames(control, 'h-9', className)}
          />
          {button}
        </div>
      )}
    </Field>
  );
}

type PasswordFieldProps = Omit<TextFieldProps, 'type' | 'button' | 'className' | 'label'> & { label: string };

/**
 * A password, with a button that shows it. Sending its form hides it again: browsers save, and offer to save, only what is hidden. While it
 * is shown they must neither capitalize it nor send it to a spelling service.
 */
export function PasswordField({ label, ...rest }: PasswordFieldProps) {
  const [shown, setShown] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const hide = () => setShown(false);
    const form = button.current?.form;
    form?.addEventListener('submit', hide);
    return () => form?.removeEventListener('submit', hide);
  }, []);
  const action = shown ? 'Hide' : 'Show';
  return (
    <TextField
      {...rest}
      label={label}
      type={shown ? 'text' : 'password'}
      autoCapitalize="none"
      spellCheck={false}
      className="pr-15"
      button={
        <button
          ref={button}
          type="button"
          onClick={() => setShown(!shown)}
          className="absolute inset-y-0 right-0 rounded-md px-3 text-sm font-medium text-soft hover:text-ink focus-visible:-outline-offset-4 print:hidden"
        >
          <span key={action}>{action}</span>
          <span className="sr-only"> {label.toLowerCase()}</span>
        </button>
      }
    />
  );
}

type TextAreaProps = Omit<TextareaHTMLAttributes<HTMLTextAreaElement>, 'onChange'> & {
  label: ReactNode;
  hint?: ReactNode;
  error?: string | null;
  onChange: (value: string) => void;
};

export function TextArea({ label, hint, error, onChange, className, ...rest }: TextAreaProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => (
        <textarea
          {...rest}
          {...ids}
          onChange={(event) => onChange(event.target.value)}
          className={classNames(control, 'py-2', className)}
        />
      )}
    </Field>
  );
}

export type Choice = { value: string; label: string; disabled?: boolean };

type SelectProps = Omit<SelectHTMLAttributes<HTMLSelectElement>, 'onChange'> & {
  choices: readonly Choice[];
  onChange: (value: string) => void;
};

/** The browser's own select: right on phones, searchable by typing, and known to every screen reader. */
export function Select({ choices, onChange, className, ...rest }: SelectProps) {
  return (
    <span className={classNames('relative inline-block', className)}>
      <select
        {...rest}
        onChange={(event) => onChange(event.target.value)}
        className="h-9 w-full appearance-none rounded-md border border-edge bg-surface pr-8 pl-3 text-base text-ink text-ellipsis disabled:opacity-60"
      >
        {choices.map(({ value, label, disabled }) => (
          <option key={value} value={value} disabled={disabled}>
            {label}
          </option>
        ))}
      </select>
      <Icon name="down" className="pointer-events-none absolute top-2.5 right-2.5 size-4 text-soft" />
    </span>
  );
}

type SelectFieldProps = SelectProps & { label: ReactNode; hint?: ReactNode; error?: string | null };

export function SelectField({ label, hint, error, ...rest }: SelectFieldProps) {
  return (
    <Field label={label} hint={hint} error={error}>
      {(ids) => <Select {...rest} {...ids} className="w-full" />}
    </Field>
  );
}

type CheckboxProps = {
  checked: boolean;
  onChange: (checked: boolean) => void;
  label: ReactNode;
  hint?: ReactNode;
};

export function Checkbox({ checked, onChange, label, hint }: CheckboxProps) {
  return (
    <label className="flex gap-2.5 text-base">
      <input
        type="checkbox"
        checked={checked}
        onChange={(event) => onChange(event.target.checked)}
        className="mt-0.75 size-4 accent-accent"
      />
      <span>
        {label}
        {hint !== undefined && <span className="block text-sm text-faint">{hint}</span>}
      </span>
    </label>
  );
}
