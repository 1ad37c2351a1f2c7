import { useAction } from '../../api/hooks.ts';
import { navigate } from '../../router/router.ts';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { useToast } from '../../ui/toast.tsx';
import type { AdminModel } from './types.ts';

/** Asks before a model is removed from the catalog. The API refuses to delete a model that is announced, retired or another's successor. */
export function DeleteModelDialog({ model, onClose }: { model: AdminModel; onClose: () => void }) {
  const toast = useToast();
  const remove = useAction({
    stale: ['/admin/models', '/admin/deployments', '/models'],
    onSuccess: () => toast.say(`${model.id} was deleted.`),
    onDone: () => navigate('/operator/models', { replace: true }),
  });
  return (
    <ConfirmDialog
      title={`Delete ${model.id}?`}
      description="Calls that name it are refused as if it had never existed, and its deployments and grants are deleted too. Usage and invoices keep its name. This cannot be undone: a model added under the same name starts afresh."
      act="Delete model"
      pending={remove.pending}
      error={remove.error}
      onAct={() => remove.run({ method: 'DELETE', path: `/admin/models/${encodeURIComponent(model.id)}` })}
      onClose={onClose}
    />
  );
}
