import { useAction } from '../../api/hooks.ts';
import { ConfirmDialog } from '../../ui/confirm-dialog.tsx';
import { Time } from '../../ui/time.tsx';
import { useToast } from '../../ui/toast.tsx';
import type { AdminPrice } from './types.ts';

/** Asks before a price that users see as the next one is taken back. */
export function WithdrawPriceDialog({ price, onClose }: { price: AdminPrice; onClose: () => void }) {
  const toast = useToast();
  const withdraw = useAction({
    stale: ['/admin/models', '/admin/prices', '/models'],
    onSuccess: () => toast.say('Price withdrawn.'),
    onDone: onClose,
  });
  return (
    <ConfirmDialog
      title={`Withdraw an upcoming price of ${price.model}?`}
      description={
        <>
          It would apply from <Time value={price.effective_from} /> on. Users no longer see it, and what applies until
          then goes on. You can set another one for the same time.
        </>
      }
      act="Withdraw price"
      pending={withdraw.pending}
      error={withdraw.error}
      onAct={() => withdraw.run({ method: 'DELETE', path: `/admin/prices/${price.id}` })}
      onClose={onClose}
    />
  );
}
