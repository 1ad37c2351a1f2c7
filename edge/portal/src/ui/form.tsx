import { type FormEvent, type ReactNode, useEffect, useLayoutEffect, useRef, useState } from 'react';
import type { ApiError } from '../api/error.ts';
import { changedFields } from '../api/hooks.ts';
import { lackOf } from './field.tsx';
import { Notice } from './notice.tsx';
import { RequestId } from './request-id.tsx';

type FormProps = {
  onSubmit: () => void;
  children: ReactNode;
  className?: string;
  /** Which form this is, for screen readers, on a page with several that have the same fields. */
  label?: string;
};

/** A form that is sent once its required fields are filled in, and no date is half typed; the rest is for the API to judge. */
export function Form({ onSubmit, children, className = 'grid grid-cols-[minmax(0,1fr)] gap-4', label }: FormProps) {
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const lacking = [...event.currentTarget.querySelectorAll('input')].filter((field) => lackOf(field) !== null);
    // Each such field then says so itself.
    for (const field of lacking) field.checkValidity();
    if (lacking[0] === undefined) onSubmit();
    else lacking[0].focus();
  };
  return (
    <form noValidate aria-label={label} onSubmit={submit} className={className}>
      {children}
    </form>
  );
}

/**
 * The fields of a form that edits what is read from the API. One in which nothing else was typed follows what is read, so that no change of
 * somebody else is undone. The action that sent them calls `saved` once its answer is what is read: it may be in another form, such as 5 for
 * 5.00.
 */
export function useEdits<Fields extends object>(read: Fields) {
  const [typed, setTyped] = useState<Partial<Fields>>({});
  const edits = changedFields<Partial<Fields>>(read, typed);
  if (Object.keys(edits).length < Object.keys(typed).length) setTyped(edits);
  return {
    fields: { ...read, ...edits },
    /** Those that differ from what is read. */
    edits,
    type: (given: Partial<Fields>) => setTyped({ ...edits, ...given }),
    saved: () => setTyped((now) => changedFields<Partial<Fields>>(typed, now)),
  };
}

/**
 * The fields of a form that stays once it was sent. An action that sent them may then `clear` those in `cleared`, which gives them these values,
 * unless something was typed in them since.
 */
export function useSentFields<Fields extends object>(initial: Fields, cleared: Partial<Fields>) {
  const [fields, setFields] = useState(initial);
  return {
    fields,
    type: (given: Partial<Fields>) => setFields({ ...fields, ...given }),
    clear: () => setFields((now) => ({ ...now, ...cleared, ...changedFields(fields, now) })),
  };
}

/**
 * The error of a form, unless one of its fields shows it, and the request id that support will ask for. It is at the top of the form and
 * scrolls to whatever the error is about, since a long form is submitted from its end. The first wrong field takes the focus, unless its user
 * is typing in one.
 */
export function FormError({ error }: { error: ApiError | null | undefined }) {
  const place = useRef<HTMLDivElement>(null);
  /** Null until it is known. */
  const [isAtField, setIsAtField] = useState<boolean | null>(null);
  // After each change of the form, and before it is painted: a field may have come or gone.
  useLayoutEffect(() => {
    const form = place.current?.parentElement;
    setIsAtField(form == null ? null : error?.param != null && form.querySelector('[data-field-error]') !== null);
  });
  useEffect(() => {
    const form = place.current?.parentElement;
    if (error == null || isAtField === null || form == null) return;
    form.querySelector('[role="alert"]')?.scrollIntoView({ block: 'nearest' });
    const isTyping = document.activeElement?.matches('input, textarea, select');
    if (isAtField && !isTyping)
      form.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus({ preventScroll: true });
  }, [error, isAtField]);
  if (error == null) return null;
  return (
    <div ref={place} className="contents">
      {isAtField === null ? null : isAtField ? (
        <RequestId id={error.requestId} />
      ) : (
        <Notice tone="danger" role="alert">
          {error.message}
          <RequestId id={error.requestId} />
        </Notice>
      )}
    </div>
  );
}
