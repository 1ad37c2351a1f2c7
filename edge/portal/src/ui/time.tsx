import { formatDateTime, formatRelative, formatUtc } from '../format/time.ts';
import { useNow } from '../shell/now.ts';

/**
 * A moment in the reader's time zone, with UTC on hover. It does not wrap except on the narrowest screens, where it has no room next to its
 * label.
 */
export function Time({
  value,
  relative = false,
  none = '—',
}: {
  value: string | null | undefined;
  relative?: boolean;
  none?: string;
}) {
  if (value == null) return <span className="text-faint">{none}</span>;
  return (
    <time
      dateTime={value}
      title={relative ? `${formatDateTime(value)} · ${formatUtc(value)}` : formatUtc(value)}
      className="tabular min-[22rem]:whitespace-nowrap"
    >
      {relative ? <FromNow value={value} /> : formatDateTime(value)}
    </time>
  );
}

const FromNow = ({ value }: { value: string }) => formatRelative(value, useNow());
