import type { Query } from '../../api/client.ts';
import { useSearchParameter } from '../../router/router.ts';
import { DayFilter, useDays } from '../../ui/day-filter.tsx';
import { Select } from '../../ui/field.tsx';

const payments = ['pending', 'overdue', 'paid'];

/** By what the address narrows a list of invoices, as the API takes it. */
export function useInvoiceQuery(): Query {
  const [days] = useDays();
  const [payment] = useSearchParameter('payment', '');
  return {
    start_date: days.start,
    end_date: days.end,
    // A draft is not to be paid yet.
    ...(payments.includes(payment) && { payment_status: payment, status: 'finalized' }),
  };
}

export function InvoiceFilters() {
  const [days, setDays] = useDays();
  const [payment, setPayment] = useSearchParameter('payment', '');
  return (
    <div className="flex flex-wrap items-center gap-2">
      <DayFilter days={days} onChange={setDays} />
      <Select
        aria-label="Payment"
        value={payments.includes(payment) ? payment : ''}
        onChange={setPayment}
        choices={[
          { value: '', label: 'All invoices' },
          { value: 'pending', label: 'Pending' },
          { value: 'overdue', label: 'Overdue' },
          { value: 'paid', label: 'Paid' },
        ]}
      />
    </div>
  );
}
