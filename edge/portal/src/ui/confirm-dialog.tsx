import type { ReactNode } from 'react';
import type { ApiError } from '../api/error.ts';
import { Button } from './button.tsx';
import { Dialog, DialogActions } from './dialog.tsx';
import { FormError } from './form.tsx';

type ConfirmDialogProps = {
  title: ReactNode;
  /** What the action does, and whether it can be undone. */
  description: ReactNode;
  /** The label of the button that does it. */
  act: string;
  onAct: () => void;
  onClose: () => void;
  pending?: boolean;
  error?: ApiError | null;
};

/** Asks before an action that cannot be undone or that affects others at once. */
export function ConfirmDialog({
  title,
  description,
  act,
  onAct,
  onClose,
  pending = false,
  error = null,
}: ConfirmDialogProps) {
  return (
    <Dialog open onClose={onClose} title={title} description={description}>
      <div className="grid gap-4">
        <FormError error={error} />
        <DialogActions>
          <Button onClick={onClose}>Cancel</Button>
          <Button look="danger" pending={pending} onClick={onAct}>
            {act}
          </Button>
        </DialogActions>
      </div>
    </Dialog>
  );
}
