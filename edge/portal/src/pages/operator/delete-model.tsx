import { useAction } from '../../api/hooks.ts';
import { navigate } from '../../router/router.ts';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { useToast } from '../../ui/toast.tsx';
import type { AdminModel } from './types.ts';

/** Asks before a model leaves the catalog. The API refuses one that is announced, retired, or the successor of another. */
export function DeleteModelDialog({ model, onClose }: { model: AdminModel; onClose: () => void }) {
  const toast = useToast();
  const remove = useAction({
    stale: ['/admin/models', '/admin/deployments', '/models'],
    onSuccess: () => {
      toast.say(`${model.id} is deleted.`);
      navigate('/operator/models', { replace: true });
    },
  });
  return (
    <ConfirmDialog
      title={`Delete ${model.id}?`}
      description="Calls that name it are refused as for a model that never was, and its deployments and grants go with it. Usage and invoices keep its name. This cannot be undone: a model that is added under the same name begins anew."
      act="Delete model"
      pending={remove.pending}
      error={remove.error}
      onAct={() => remove.run({ method: 'DELETE', path: `/admin/models/${encodeURIComponent(model.id)}` })}
      onClose={onClose}
    />
  );
}
