import type { ReactNode } from 'react';
import { classNames } from './class-names.ts';
import type { Tone } from './notice.tsx';

const tones: Readonly<Record<Tone, string>> = {
  neutral: 'bg-sunken text-soft',
  accent: 'bg-accent-soft text-accent',
  good: 'bg-good-soft text-good',
  warn: 'bg-warn-soft text-warn',
  danger: 'bg-danger-soft text-danger',
};

type BadgeProps = {
  tone?: Tone;
  title?: string;
  /** Whether it may wrap on screens other than the narrowest: its content can be wider than its place. */
  wraps?: boolean;
  children: ReactNode;
};

export function Badge({ tone = 'neutral', title, wraps = false, children }: BadgeProps) {
  return (
    <span
      title={title}
      className={classNames(
        'inline-flex min-h-5 items-center rounded-[0.625rem] px-2 text-xs font-medium',
        !wraps && 'max-[22rem]:wrap-anywhere min-[22rem]:whitespace-nowrap',
        tones[tone],
      )}
    >
      {children}
    </span>
  );
}

type StatusProps = {
  tone: Tone;
  /** Whether it may wrap: an error code can be wider than its place. */
  wraps?: boolean;
  children: ReactNode;
};

/** A status with a coloured dot. The word alone is enough; the colour helps. */
export function Status({ tone, wraps = false, children }: StatusProps) {
  const dots: Readonly<Record<Tone, string>> = {
    neutral: 'bg-edge',
    accent: 'bg-accent',
    good: 'bg-good',
    warn: 'bg-warn',
    danger: 'bg-danger',
  };
  return (
    <span
      className={classNames(
        'inline-flex items-center gap-1.5 text-sm',
        wraps ? 'wrap-break-word' : 'whitespace-nowrap',
      )}
    >
      <span className={classNames('mark size-1.75 shrink-0 rounded-full', dots[tone])} />
      {children}
    </span>
  );
}
