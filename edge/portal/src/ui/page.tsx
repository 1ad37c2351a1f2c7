import { type ReactNode, useEffect } from 'react';
import { Link } from '../router/link.tsx';
import { Icon } from './icons.tsx';

type PageProps = {
  title: string;
  description?: ReactNode;
  actions?: ReactNode;
  /** The page above this one, if any. */
  parent?: { name: string; href: string };
  badge?: ReactNode;
  children: ReactNode;
};

/** A page's header and body. The title is also the window's. */
export function Page({ title, description, actions, parent, badge, children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Model Gateway`;
  }, [title]);
  return (
    <div className="mx-auto grid w-full max-w-6xl min-w-0 grid-cols-[minmax(0,1fr)] gap-5 px-4 pt-6 pb-16 sm:px-8 sm:pt-9">
      <header className="flex flex-wrap items-start justify-between gap-x-6 gap-y-3">
        <div className="min-w-0">
          {parent !== undefined && (
            <Link
              href={parent.href}
              className="mb-1 inline-flex items-center gap-0.5 text-sm text-soft hover:text-ink print:hidden"
            >
              <Icon name="left" className="-ml-1 size-3.5" />
              {parent.name}
            </Link>
          )}
          <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
            <h1 tabIndex={-1} className="text-xl font-semibold tracking-tight wrap-anywhere">
              {title}
            </h1>
            {badge}
          </div>
          {description !== undefined && <div className="mt-1 max-w-2xl text-base text-soft">{description}</div>}
        </div>
        {actions !== undefined && <div className="flex flex-wrap gap-2 print:hidden">{actions}</div>}
      </header>
      {children}
    </div>
  );
}
