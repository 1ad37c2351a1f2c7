import type { Invoice } from '../../api/types.ts';
import { DownloadButton } from '../../ui/download-button.tsx';

/** Downloads an invoice. */
export function PdfButton({ invoice }: { invoice: Pick<Invoice, 'id' | 'number'> }) {
  return (
    <DownloadButton
      path={`/billing/documents/invoices/${invoice.id}`}
      query={{ format: 'pdf' }}
      fileName={`invoice-${invoice.number || 'draft'}.pdf`}
      size="small"
      aria-label={`PDF of ${invoice.number || 'the draft'}`}
    >
      PDF
    </DownloadButton>
  );
}
