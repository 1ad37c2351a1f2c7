import type { Query } from '../../api/client.ts';
import { addDays } from '../../format/time.ts';
import { useSearchParameter } from '../../router/router.ts';
import { useDays } from '../../ui/day-filter.tsx';
import { useSearch } from '../../ui/search-box.tsx';
import { failedOutcome, lookUp, outcomeParameter, successOf } from '../usage/request-filters.tsx';
import type { AdminDeployment, AdminKey } from './types.ts';

/** What calls can be filtered by, as the address has it. */
type CallFilters = {
  organization?: string;
  user?: string;
  key?: string;
  /** Of the key, to name it. */
  preview?: string;
  model?: string;
  deployment?: string;
  [outcomeParameter]?: string;
  /** The id of one call. */
  search?: string;
};

/** The page with the calls that meet some filters. */
export const callsMeeting = (filters: CallFilters): string => `/operator/calls?${new URLSearchParams(filters)}`;

/** The page with all calls of one key, such as one that leaked. */
export const callsOfKey = ({
  id,
  tenant_id,
  key_preview = '',
}: Pick<AdminKey, 'id' | 'tenant_id'> & Partial<Pick<AdminKey, 'key_preview'>>): string =>
  callsMeeting({ organization: tenant_id, key: id, preview: key_preview });

/** The page with the call of a charge, whosever it is. */
export const callOfCharge = (eventId: string): string => callsMeeting({ search: eventId });

/** The page with the calls at which a deployment failed. */
export const failedCallsOf = ({ id, model }: Pick<AdminDeployment, 'id' | 'model'>): string =>
  callsMeeting({ model, deployment: id, [outcomeParameter]: failedOutcome });

/** What calls are filtered by, from the address. */
export function useCallFilters() {
  const search = useSearch();
  // One that is looked up may be anybody's, of any day and model, so that the filters are off.
  const isLookUp = search !== '';
  const useFilter = (name: string) => {
    const [value, set] = useSearchParameter(name, '');
    return { value: isLookUp ? '' : value, set };
  };
  const [days, setDays] = useDays();
  const outcome = useFilter(outcomeParameter);
  const deployment = useFilter('deployment');
  const filters = {
    organization: useFilter('organization'),
    user: useFilter('user'),
    key: useFilter('key'),
    preview: useFilter('preview'),
    model: useFilter('model'),
    deployment,
    // The API finds no others by a deployment.
    outcome: deployment.value === '' ? outcome : { ...outcome, value: failedOutcome },
    days: { value: isLookUp ? { start: '', end: '' } : days, set: setDays },
  };
  // Of all organizations, or through a deployment, the API lists no more at once: it would refuse an early day without a last one.
  const isWeek = filters.organization.value === '' || deployment.value !== '';
  /** The filters as the API takes them. */
  const query: Query = isLookUp
    ? lookUp(search)
    : {
        tenant_id: filters.organization.value,
        user_id: filters.user.value,
        api_key_id: filters.key.value,
        model: filters.model.value,
        deployment_id: deployment.value,
        success: successOf(filters.outcome.value),
        start_date: days.start,
        end_date: days.end === '' && days.start !== '' && isWeek ? addDays(days.start, 6) : days.end,
      };
  const isAsked = Object.values(query).some((value) => value !== '' && value !== undefined);
  return { filters, isLookUp, query, isAsked };
}
