import type { ReactNode } from 'react';
import { Icon, type IconName } from './icons.tsx';

type EmptyStateProps = { icon: IconName; title: string; children?: ReactNode; action?: ReactNode };

/** Says what will appear here and how to get it. */
export function EmptyState({ icon, title, children, action }: EmptyStateProps) {
  return (
    <div className="grid justify-items-center gap-2 px-6 py-12 text-center">
      <span className="mb-1 inline-flex size-10 items-center justify-center rounded-full bg-sunken text-soft">
        <Icon name={icon} className="size-5" />
      </span>
      <p className="font-medium">{title}</p>
      {children !== undefined && <div className="max-w-md text-sm text-faint">{children}</div>}
      {action !== undefined && <div className="mt-3">{action}</div>}
    </div>
  );
}
