import { useState } from 'react';
import type { ApiError } from '../../api/error.ts';
import { useApi } from '../../api/hooks.ts';
import { downloadFile } from '../../format/csv.ts';
import { localTimeZone } from '../../format/time.ts';
import { Button } from '../../ui/button.tsx';
import type { DayRange } from '../../ui/range-picker.tsx';
import { useToast } from '../../ui/toast.tsx';

/** All events of the range, of whom the page shows, as the API streams them: for admins and owners. */
export function ExportButton({ range, scope }: { range: DayRange; scope: 'own' | 'tenant' }) {
  const api = useApi();
  const toast = useToast();
  const [pending, setPending] = useState(false);
  const run = async () => {
    setPending(true);
    try {
      const response = await api.fetch('/api/v1/usage/export', {
        query: { start_date: range.start, end_date: range.end, timezone: localTimeZone(), scope },
      });
      downloadFile(`usage-${range.start}-${range.end}.csv`, await response.blob());
    } catch (error) {
      toast.complain(error as ApiError);
    } finally {
      setPending(false);
    }
  };
  return (
    <Button icon="download" pending={pending} onClick={() => void run()}>
      Export events
    </Button>
  );
}
