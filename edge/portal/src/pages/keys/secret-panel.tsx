import type { CreatedKey } from '../../api/types.ts';
import { Button } from '../../ui/button.tsx';
import { CodeBlock } from '../../ui/code-block.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { DialogActions } from '../../ui/dialog.tsx';
import { Notice } from '../../ui/notice.tsx';

type SecretPanelProps = { created: Pick<CreatedKey, 'key' | 'key_type'>; onDone: () => void };

/** Shows a secret, the only time that it can be read. */
export function SecretPanel({ created, onDone }: SecretPanelProps) {
  const origin = window.location.origin;
  const curl =
    created.key_type === 'management'
      ? `curl ${origin}/api/v1/usage/current \\\n  -H "Authorization: Bearer ${created.key}"`
      : `curl ${origin}/v1/models \\\n  -H "Authorization: Bearer ${created.key}"`;
  return (
    <div className="grid gap-4">
      <Notice tone="warn">
        <strong className="font-semibold">Copy the secret now.</strong> Only a hash of it is stored: nobody can show it
        again, not even the operators.
      </Notice>
      <div className="flex items-center gap-2 rounded-lg border border-edge bg-sunken p-2 pl-3">
        <code data-secret className="min-w-0 flex-1 font-mono text-sm break-all select-all">
          {created.key}
        </code>
        <CopyButton text={created.key} label="Copy secret" size="medium" />
      </div>
      <div className="grid gap-1.5">
        <p className="text-sm font-medium">Try it</p>
        <CodeBlock code={curl} label="A curl call with the new key" />
      </div>
      <DialogActions>
        <Button look="primary" onClick={onDone}>
          I have copied it
        </Button>
      </DialogActions>
    </div>
  );
}
