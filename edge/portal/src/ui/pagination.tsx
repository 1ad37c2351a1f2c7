import { useEffect } from 'react';
import type { Pagination } from '../api/types.ts';
import { formatCount } from '../format/number.ts';
import { IconButton } from './button.tsx';

/** Moves from page to page. If the current page no longer exists because its last row is gone, moves to the last page. */
export function Pager({ pagination, onPage }: { pagination: Pagination; onPage: (page: number) => void }) {
  const { page, total, total_pages, has_next, has_prev } = pagination;
  const isGone = page > Math.max(total_pages, 1);
  // biome-ignore lint/correctness/useExhaustiveDependencies: onPage is created anew on each render but always does the same.
  useEffect(() => {
    if (isGone) onPage(Math.max(total_pages, 1));
  }, [isGone, total_pages]);
  if (total_pages <= 1) return null;
  return (
    <nav
      aria-label="Pages"
      className="flex items-center justify-between gap-3 border-t border-line px-5 py-2 text-sm text-soft"
    >
      <span className="tabular">
        Page {formatCount(page)} of {formatCount(total_pages)} · {formatCount(total)} in total
      </span>
      <span className="flex gap-1 print:hidden">
        <IconButton icon="left" label="Previous page" disabled={!has_prev} onClick={() => onPage(page - 1)} />
        <IconButton icon="right" label="Next page" disabled={!has_next} onClick={() => onPage(page + 1)} />
      </span>
    </nav>
  );
}
