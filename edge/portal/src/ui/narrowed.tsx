import { type ReactNode, useId } from 'react';
import { Button } from './button.tsx';

/** Says to what a link has narrowed a list, where no field of the page shows it, and offers the whole list. */
export function Narrowed({ onAll, children }: { onAll: () => void; children: ReactNode }) {
  const id = useId();
  const showAll = () => {
    onAll();
    // The button goes with what it ended.
    document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true });
  };
  return (
    <div className="flex min-w-0 flex-wrap items-center gap-x-3 gap-y-1 text-sm text-soft">
      <span id={id} className="wrap-anywhere">
        {children}
      </span>
      <Button size="small" aria-describedby={id} onClick={showAll}>
        Show all
      </Button>
    </div>
  );
}
