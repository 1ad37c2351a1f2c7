import { localTimeZone } from '../../format/time.ts';
import { DownloadButton } from '../../ui/download-button.tsx';
import type { DayRange } from '../../ui/range-picker.tsx';

type ExportButtonProps = {
  range: DayRange;
  scope: 'own' | 'tenant';
  /** In which days begin. */
  timezone?: string;
  size?: 'small' | 'medium';
};

/** Exports all requests of the range, for the people whom the page shows, as the API streams them. For admins and owners. */
export function ExportButton({ range, scope, timezone = localTimeZone(), size = 'medium' }: ExportButtonProps) {
  return (
    <DownloadButton
      path="/usage/export"
      query={{ start_date: range.start, end_date: range.end, timezone, scope }}
      size={size}
      fileName={`usage-${range.start}-${range.end}.csv`}
    >
      Export requests
    </DownloadButton>
  );
}
