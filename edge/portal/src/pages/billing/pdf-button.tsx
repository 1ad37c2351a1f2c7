import { useState } from 'react';
import type { ApiError } from '../../api/error.ts';
import { useApi } from '../../api/hooks.ts';
import type { Invoice } from '../../api/types.ts';
import { downloadFile } from '../../format/csv.ts';
import { Button } from '../../ui/button.tsx';
import { useToast } from '../../ui/toast.tsx';

/** Downloads an invoice. A plain link could not: the token travels in a header. */
export function PdfButton({ invoice }: { invoice: Pick<Invoice, 'id' | 'number'> }) {
  const api = useApi();
  const toast = useToast();
  const [pending, setPending] = useState(false);
  const download = async () => {
    setPending(true);
    try {
      const response = await api.fetch(`/api/v1/billing/documents/invoices/${invoice.id}`, {
        query: { format: 'pdf' },
      });
      downloadFile(`invoice-${invoice.number || 'draft'}.pdf`, await response.blob());
    } catch (error) {
      toast.complain(error as ApiError);
    } finally {
      setPending(false);
    }
  };
  return (
    <Button
      size="small"
      icon="download"
      pending={pending}
      onClick={() => void download()}
      aria-label={`PDF of ${invoice.number || 'the draft'}`}
    >
      PDF
    </Button>
  );
}
