import { localTimeZone } from '../../format/time.ts';
import { DownloadButton } from '../../ui/download-button.tsx';
import type { DayRange } from '../../ui/range-picker.tsx';

/** Exports all events of the range, for the people whom the page shows, as the API streams them. For admins and owners. */
export function ExportButton({ range, scope }: { range: DayRange; scope: 'own' | 'tenant' }) {
  return (
    <DownloadButton
      path="/usage/export"
      query={{ start_date: range.start, end_date: range.end, timezone: localTimeZone(), scope }}
      fileName={`usage-${range.start}-${range.end}.csv`}
    >
      Export events
    </DownloadButton>
  );
}
