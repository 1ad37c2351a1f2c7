import type { ApiError } from '../../api/error.ts';
import { type Choice, fieldError, TextField } from '../../ui/field.tsx';

/** The servers whose peculiarities the gateway knows. */
export const serverChoices: readonly Choice[] = ['openai', 'vllm', 'llama_cpp', 'ollama', 'local_ai'].map((value) => ({
  value,
  label: value.replace('_', '.'),
}));

/** Where an upstream is, and where its key is found. */
type UpstreamAddress = { baseUrl: string; secret: string };

type UpstreamFieldsProps = {
  value: UpstreamAddress;
  onChange: (value: UpstreamAddress) => void;
  error: ApiError | null;
  autoFocus?: boolean;
};

export function UpstreamFields({ value, onChange, error, autoFocus }: UpstreamFieldsProps) {
  return (
    <>
      <TextField
        label="Base URL"
        type="url"
        required
        autoFocus={autoFocus}
        placeholder="https://host/v1"
        value={value.baseUrl}
        onChange={(baseUrl) => onChange({ ...value, baseUrl })}
        error={fieldError(error, 'base_url')}
      />
      <TextField
        label="Secret reference"
        spellCheck={false}
        placeholder="env:UPSTREAM_API_KEY"
        hint="Where an edge finds the upstream's key; the secret itself is never stored."
        value={value.secret}
        onChange={(secret) => onChange({ ...value, secret })}
        error={fieldError(error, 'secret_reference')}
      />
    </>
  );
}
