import { isUuid } from '../../format/id.ts';
import { useSearchParameter } from '../../router/router.ts';
import { useDays } from '../../ui/day-filter.tsx';
import { useSearch } from '../../ui/search-box.tsx';
import { failedOutcome, outcomeParameter, successOf } from '../usage/request-filters.tsx';
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
  const [organization] = useSearchParameter('organization', '');
  const [user, setUser] = useSearchParameter('user', '');
  const [key] = useSearchParameter('key', '');
  const [preview] = useSearchParameter('preview', '');
  const [model, setModel] = useSearchParameter('model', '');
  const [deployment, setDeployment] = useSearchParameter('deployment', '');
  const [chosenOutcome, setOutcome] = useSearchParameter(outcomeParameter, '');
  const [days, setDays] = useDays();
  // The API finds no others by it.
  const outcome = deployment === '' ? chosenOutcome : failedOutcome;
  // One that is looked up may be anybody's, of any day and model, so that the filters are off.
  const isLookUp = search !== '';
  const filtered = {
    tenant_id: organization,
    user_id: user,
    api_key_id: key,
    model,
    deployment_id: deployment,
    success: successOf(outcome),
    start_date: days.start,
    end_date: days.end,
  };
  return {
    ...{ isLookUp, organization, user, setUser, key, preview, model, setModel, deployment, setDeployment },
    ...{ outcome, setOutcome, days, setDays },
    /** Whether anything is asked for. */
    isAsked: isLookUp || Object.values(filtered).some((value) => value !== '' && value !== undefined),
    /** The filters as the API takes them. */
    query: isLookUp ? (isUuid(search.toLowerCase()) ? { event_id: search } : { request_id: search }) : filtered,
  };
}
