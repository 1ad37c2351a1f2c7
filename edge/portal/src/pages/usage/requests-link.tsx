import { formatCount } from '../../format/number.ts';
import { Link } from '../../router/link.tsx';
import { usePlace } from '../../router/router.ts';
import { type RequestFilterValues, requestsMeeting } from './request-filters.tsx';

/** A number of requests, which leads to those that meet a filter. */
export function RequestsLink({ count, filter }: { count: number; filter: RequestFilterValues }) {
  // By this it renders again when the address changes, which the link continues.
  const { path } = usePlace();
  return (
    <Link href={path + requestsMeeting(filter)} className="underline hover:text-ink" title="Show these requests">
      {formatCount(count)}
    </Link>
  );
}
