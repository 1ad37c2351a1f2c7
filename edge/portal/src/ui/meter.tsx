import type { ReactNode } from 'react';
import { classNames } from './class-names.ts';

type MeterProps = { label: string; value: number; max: number; text: string; detail?: ReactNode };

/** How much of something is used; warns from 80% on. */
export function Meter({ label, value, max, text, detail }: MeterProps) {
  const part = max <= 0 ? 1 : Math.min(1, value / max);
  const tone = part >= 1 ? 'bg-danger' : part >= 0.8 ? 'bg-warn' : 'bg-accent';
  return (
    <div className="grid gap-1.5">
      <div className="flex items-baseline justify-between gap-3 text-sm">
        <span className="text-soft">{label}</span>
        <span className="font-medium tabular">{text}</span>
      </div>
      {/* biome-ignore lint/a11y/useSemanticElements: the look of <meter> cannot be set by style alone. */}
      <div
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        aria-valuemax={max}
        aria-valuenow={Math.min(value, max)}
        aria-valuetext={text}
        className="h-1.5 overflow-hidden rounded-full bg-line"
      >
        <div className={classNames('h-full rounded-full', tone)} style={{ width: `${part * 100}%` }} />
      </div>
      {detail !== undefined && <p className="text-xs text-faint">{detail}</p>}
    </div>
  );
}
