import { useGet, useIsAdmin } from '../../api/hooks.ts';
import { utcToday } from '../../api/server-clock.ts';
import type { CreatedKey, Model } from '../../api/types.ts';
import { Button } from '../../ui/button.tsx';
import { CodeBlock } from '../../ui/code-block.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { DialogActions } from '../../ui/dialog.tsx';
import { Notice } from '../../ui/notice.tsx';
import { Skeleton } from '../../ui/skeleton.tsx';
import { firstCall, operationsOf } from './first-call.ts';

type SecretPanelProps = {
  created: Pick<CreatedKey, 'key' | 'key_type' | 'scopes' | 'model_allowlist'>;
  onDone: () => void;
};

/** Shows a secret, the only time that it can be read, and a call to try it with. */
export function SecretPanel({ created, onDone }: SecretPanelProps) {
  const [allowed, ...others] = created.model_allowlist ?? [];
  // Of a key with one model that one comes first; several may be anywhere in the list.
  const query = { operation: operationsOf(created.scopes), search: allowed ?? '', limit: 100 };
  const models = useGet<{ data: Model[] }>('/models', others.length === 0 ? query : undefined, {
    enabled: created.key_type === 'inference',
  });
  const isAdmin = useIsAdmin();
  const call = firstCall(created, models.data?.data ?? [], window.location.origin, utcToday(), isAdmin);
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
      {models.isLoading ? (
        <Skeleton className="h-44 w-full" />
      ) : (
        call !== null && (
          <div className="grid gap-1.5">
            <p className="text-sm font-medium">Try it</p>
            <CodeBlock
              code={`export MODEL_GATEWAY_KEY=${created.key}\n\n${call}`}
              label="A curl call with the new key"
              // The secret would reach below the button.
              wraps
            />
          </div>
        )
      )}
      <DialogActions>
        <Button look="primary" onClick={onDone}>
          I have copied it
        </Button>
      </DialogActions>
    </div>
  );
}
