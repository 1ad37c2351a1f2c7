import type { ApiKey } from '../../api/types.ts';
import { DeleteKeyDialog } from './delete-key.tsx';
import { EditKeyDialog } from './edit-key.tsx';
import { RotateKeyDialog } from './rotate-key.tsx';

/** What is being done to a key. */
export type KeyDialog = { kind: 'edit' | 'rotate' | 'delete'; apiKey: ApiKey };

export function KeyDialogs({
  dialog,
  onClose,
  onDeleted = onClose,
}: {
  dialog: KeyDialog | null;
  onClose: () => void;
  onDeleted?: () => void;
}) {
  if (dialog === null) return null;
  const { kind, apiKey } = dialog;
  switch (kind) {
    case 'edit':
      return <EditKeyDialog apiKey={apiKey} onClose={onClose} />;
    case 'rotate':
      return <RotateKeyDialog apiKey={apiKey} onClose={onClose} />;
    case 'delete':
      return <DeleteKeyDialog apiKey={apiKey} onClose={onClose} onDeleted={onDeleted} />;
    default:
      return kind satisfies never;
  }
}
