import type { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ApiError } from '../../api/error.ts';
import { type Choice, fieldError, TextField } from '../../ui/field.tsx';

type Server = Lowercase<Exclude<keyof typeof UpstreamDialect, 'UNSPECIFIED' | 'SANDBOX'>>;

/** The servers whose peculiarities the gateway knows. One without a name does not compile. */
const names: Readonly<Record<Server, string>> = {
  openai: 'OpenAI',
  vllm: 'vLLM',
  llama_cpp: 'llama.cpp',
  ollama: 'Ollama',
  local_ai: 'LocalAI',
};
export const serverChoices: readonly Choice[] = Object.entries(names).map(([value, label]) => ({ value, label }));

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
