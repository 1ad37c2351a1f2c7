import type { ReactNode } from 'react';
import type { ApiError } from '../../api/error.ts';
import { Checkbox, FieldError, fieldError } from '../../ui/field.tsx';
import { operationName, operations } from '../models/operations.ts';

type OperationsFieldProps = {
  chosen: readonly string[];
  onChange: (chosen: readonly string[]) => void;
  error: ApiError | null;
  hint?: ReactNode;
};

/** Checkboxes for what a model can do. */
export function OperationsField({ chosen, onChange, error, hint }: OperationsFieldProps) {
  return (
    <>
      <fieldset className="grid min-[17rem]:grid-cols-2 gap-2">
        <legend className="mb-1.5 text-sm font-medium">Operations</legend>
        {operations.map((operation) => (
          <Checkbox
            key={operation}
            label={operationName(operation)}
            checked={chosen.includes(operation)}
            onChange={(on) => onChange(on ? [...chosen, operation] : chosen.filter((one) => one !== operation))}
          />
        ))}
        {hint !== undefined && <p className="col-span-2 text-sm text-faint">{hint}</p>}
      </fieldset>
      <FieldError text={fieldError(error, 'operations')} />
    </>
  );
}
