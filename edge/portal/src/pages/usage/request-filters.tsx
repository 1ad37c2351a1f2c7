import type { UsageSummary } from '../../api/types.ts';
import { isUuid } from '../../format/id.ts';
import { searchWith, useSearchParameter } from '../../router/router.ts';
import { Select } from '../../ui/field.tsx';
import { Narrowing } from './narrowing.tsx';

export const outcomeParameter = 'status';
export const failedOutcome = 'failed';
const successOutcome = 'success';

/** What the API is asked for by a value of the address; undefined: all. */
export const successOf = (outcome: string): boolean | undefined =>
  outcome === failedOutcome ? false : outcome === successOutcome ? true : undefined;

/** What the API is asked for to look up a request by its own id or, as a charge names it, by that of its event, which is a UUID. */
export const lookUp = (id: string) => (isUuid(id.toLowerCase()) ? { event_id: id } : { request_id: id });

/** What requests can be filtered by, as the address has it. */
export type RequestFilterValues = {
  model?: string;
  key?: string;
  endpoint?: string;
  user?: string;
  [outcomeParameter]?: string;
};

/**
 * The query of the usage page's address, with which it shows the requests of the range that meet these filters alone. A user's are among
 * those of the organization.
 */
export const requestsMeeting = (filters: RequestFilterValues): string =>
  searchWith({
    by: 'request',
    model: null,
    key: null,
    endpoint: null,
    user: null,
    [outcomeParameter]: null,
    search: null,
    page: null,
    ...(filters.user !== undefined && { scope: 'tenant' }),
    ...filters,
  });

export const failedRequests = (): string => requestsMeeting({ [outcomeParameter]: failedOutcome });

type RequestFilter = { value: string; set: (value: string) => void };

/** What the requests are filtered by, from the address; those of an organization also by whose they are. */
export function useRequestFilters(scope: string) {
  const useFilter = (name: string): RequestFilter => {
    const [value, set] = useSearchParameter(name, '');
    return { value, set };
  };
  const user = useFilter('user');
  const filters = {
    model: useFilter('model'),
    key: useFilter('key'),
    endpoint: useFilter('endpoint'),
    outcome: useFilter(outcomeParameter),
    user: scope === 'tenant' ? user : { ...user, value: '' },
  };
  const { model, key, endpoint, outcome } = filters;
  return {
    filters,
    isFiltered: Object.values(filters).some(({ value }) => value !== ''),
    /** The filters as the API takes them. */
    query: {
      model: model.value,
      api_key_id: key.value,
      endpoint: endpoint.value,
      user_id: filters.user.value,
      success: successOf(outcome.value),
    },
  };
}

type RequestFiltersProps = {
  filters: ReturnType<typeof useRequestFilters>['filters'];
  /** The summary of the range: it has the values to filter by. */
  summary: UsageSummary | undefined;
  keyName: (id: string | null) => string;
  /** The addresses by their ids of those who made the requests, if they are the organization's. */
  emails: ReadonlyMap<string, string | null> | null;
  /** Whether all are shown for now, whatever is chosen. */
  off: boolean;
};

/** The choices that narrow the requests. */
export function RequestFilters({ filters, summary, keyName, emails, off }: RequestFiltersProps) {
  const { model, key, endpoint, outcome, user } = filters;
  return (
    <>
      <Narrowing
        label="Model"
        all="All models"
        value={model.value}
        onChange={model.set}
        values={(summary?.by_model ?? []).map((row) => row.model)}
        off={off}
      />
      <Narrowing
        label="Key"
        all="All keys"
        value={key.value}
        onChange={key.set}
        values={(summary?.by_api_key ?? []).flatMap((row) => (row.api_key_id ? [row.api_key_id] : []))}
        nameOf={keyName}
        off={off}
      />
      <Narrowing
        label="Endpoint"
        all="All endpoints"
        value={endpoint.value}
        onChange={endpoint.set}
        values={(summary?.by_endpoint ?? []).map((row) => row.endpoint)}
        off={off}
      />
      {emails !== null && (
        <Narrowing
          label="User"
          all="All users"
          value={user.value}
          onChange={user.set}
          values={[...emails.keys()]}
          nameOf={(id) => emails.get(id) || id}
          off={off}
        />
      )}
      <OutcomeFilter value={off ? '' : outcome.value} onChange={outcome.set} disabled={off} />
    </>
  );
}

type OutcomeFilterProps = { value: string; onChange: (value: string) => void; disabled: boolean };

/** Narrows calls to those that succeeded, or those that failed. */
export const OutcomeFilter = ({ value, onChange, disabled }: OutcomeFilterProps) => (
  <Select
    aria-label="Status"
    value={value}
    disabled={disabled}
    onChange={onChange}
    choices={[
      { value: '', label: 'All statuses' },
      { value: successOutcome, label: 'Success' },
      { value: failedOutcome, label: 'Failed' },
    ]}
  />
);
