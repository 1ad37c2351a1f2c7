import type { Invoice } from '../../api/types.ts';
import { DownloadButton } from '../../ui/download-button.tsx';

/** Downloads an invoice, of which `path` is where the API has it. */
export function PdfButton({ path, invoice }: { path: string; invoice: Pick<Invoice, 'number'> }) {
  return (
    <DownloadButton
      path={path}
      query={{ format: 'pdf' }}
      fileName={`invoice-${invoice.number || 'draft'}.pdf`}
      size="small"
      aria-label={`PDF of ${invoice.number || 'the draft'}`}
    >
      PDF
    </DownloadButton>
  );
}
