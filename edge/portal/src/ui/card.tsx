import type { ReactNode } from 'react';
import { classNames } from './class-names.ts';

type CardProps = {
  title?: ReactNode;
  description?: ReactNode;
  action?: ReactNode;
  children: ReactNode;
  flush?: boolean;
  className?: string;
};

/** A surface with an optional header. `flush` lets a table reach the edges. */
export function Card({ title, description, action, children, flush = false, className }: CardProps) {
  return (
    <section className={classNames('min-w-0 rounded-xl border border-line bg-surface', className)}>
      {title !== undefined && (
        <header
          className={classNames(
            'flex flex-wrap items-start justify-between gap-x-4 gap-y-2 px-5 pt-4',
            flush && 'pb-3',
          )}
        >
          <div className="min-w-0">
            <h2 className="text-base font-semibold wrap-anywhere">{title}</h2>
            {description !== undefined && <p className="mt-0.5 text-sm text-faint">{description}</p>}
          </div>
          {action !== undefined && <div className="max-w-full min-w-0 print:[&_button]:hidden">{action}</div>}
        </header>
      )}
      <div className={flush ? '' : classNames('px-5 pb-5', title === undefined ? 'pt-5' : 'pt-3')}>{children}</div>
    </section>
  );
}

type TileProps = { label: string; value: ReactNode; detail?: ReactNode; title?: string | undefined };

/** One number that matters, smaller if it would not fit on a line: a million with its cents on a phone. */
export function Tile({ label, value, detail, title }: TileProps) {
  const length = typeof value === 'string' ? value.length : 11;
  return (
    <div className="min-w-0 rounded-xl border border-line bg-surface px-4 py-3.5 max-[22.5rem]:px-3" title={title}>
      <dt className="text-sm text-faint">{label}</dt>
      <dd className="@container mt-1 leading-7 font-semibold tabular tracking-tight">
        <span className="wrap-anywhere" style={{ fontSize: `clamp(0.75rem, ${145 / length}cqi, 1.25rem)` }}>
          {value}
        </span>
      </dd>
      {detail !== undefined && <dd className="mt-0.5 truncate text-xs text-soft">{detail}</dd>}
    </div>
  );
}

export function TileRow({ children, columns = 4 }: { children: ReactNode; columns?: 3 | 4 }) {
  return (
    <dl
      className={classNames(
        'grid min-[17rem]:grid-cols-2 gap-3',
        columns === 4 ? 'lg:grid-cols-4' : 'min-[17rem]:max-lg:*:last:col-span-2 lg:grid-cols-3',
      )}
    >
      {children}
    </dl>
  );
}

/** Names and values, next to each other unless large text on a small screen leaves no room for that. */
export function Facts({ facts }: { facts: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="grid grid-cols-[minmax(0,1fr)] content-start gap-x-4 gap-y-2 text-sm min-[17rem]:grid-cols-[minmax(7.5rem,1fr)_minmax(0,2fr)]">
      {facts.map(([name, value]) => (
        <div key={name} className="min-[17rem]:contents">
          <dt className="text-faint">{name}</dt>
          <dd className="wrap-anywhere">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Names on the left, their figures on the right. */
export function Figures({ figures }: { figures: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="grid grid-cols-[minmax(0,1fr)] gap-2 text-sm">
      {figures.map(([name, figure]) => (
        <div key={name} className="flex items-baseline justify-between gap-x-4 max-[17rem]:flex-wrap">
          <dt className="text-faint">{name}</dt>
          <dd className="ml-auto font-medium tabular">{figure}</dd>
        </div>
      ))}
    </dl>
  );
}
