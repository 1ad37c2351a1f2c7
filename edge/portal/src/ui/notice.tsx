import type { ReactNode } from 'react';
import { classNames } from './class-names.ts';
import { Icon, type IconName } from './icons.tsx';

export type Tone = 'neutral' | 'accent' | 'good' | 'warn' | 'danger';

const tones: Readonly<Record<Tone, string>> = {
  neutral: 'bg-sunken text-ink',
  accent: 'bg-accent-soft text-ink',
  good: 'bg-good-soft text-ink',
  warn: 'bg-warn-soft text-ink',
  danger: 'bg-danger-soft text-ink',
};
const iconTones: Readonly<Record<Tone, string>> = {
  neutral: 'text-soft',
  accent: 'text-accent',
  good: 'text-good',
  warn: 'text-warn',
  danger: 'text-danger',
};
const icons: Readonly<Record<Tone, IconName>> = {
  neutral: 'info',
  accent: 'info',
  good: 'check',
  warn: 'warning',
  danger: 'warning',
};

type NoticeProps = {
  tone?: Tone;
  children: ReactNode;
  action?: ReactNode;
  role?: 'alert' | 'status';
  className?: string;
};

export function Notice({ tone = 'neutral', children, action, role, className }: NoticeProps) {
  return (
    <div
      role={role}
      className={classNames(
        'flex items-start gap-2.5 rounded-lg border border-transparent px-3.5 py-2.5 text-sm',
        tones[tone],
        className,
      )}
    >
      <Icon name={icons[tone]} className={classNames('mt-0.5 size-4', iconTones[tone])} />
      {/* If both do not fit on one line, the action goes below. */}
      <div className="flex min-w-0 flex-1 flex-wrap justify-between gap-x-4 gap-y-1">
        <div className="min-w-0 grow basis-64 wrap-anywhere">{children}</div>
        {action}
      </div>
    </div>
  );
}
