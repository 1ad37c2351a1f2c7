import { Time } from '../../ui/time.tsx';
import type { TimelinePoint } from './retirement-preview.ts';

export function Timeline({ points }: { points: readonly TimelinePoint[] }) {
  return (
    <ol aria-label="Timeline" className="grid gap-0">
      {points.map((point, index) => (
        <li key={point.name} className="grid grid-cols-[1rem_minmax(0,1fr)] gap-3">
          <span className="flex flex-col items-center" aria-hidden="true">
            <span
              className={
                point.past
                  ? 'mark mt-1.5 size-2.5 rounded-full bg-accent'
                  : 'mt-1.5 size-2.5 rounded-full border-2 border-edge'
              }
            />
            {index < points.length - 1 && <span className="mark w-px flex-1 bg-line" />}
          </span>
          <span className="pb-3 text-sm">
            <span className="block">{point.name}</span>
            <span className="text-xs text-faint">
              <Time value={point.at.toISOString()} />
              {point.past && ' · past'}
            </span>
          </span>
        </li>
      ))}
    </ol>
  );
}
