import { type Static, type TObject, Type } from 'typebox';
import { UsageScope } from '#gen/modelgateway/usage/v1/scope_pb.ts';
import { daySchema, readDays } from '../../../http/days.ts';
import { idFilter, nameFilter, readId } from '../../../http/json.ts';
import { spelling } from '../../../http/spelling.ts';
import { meteredEndpoint } from '../../../inference/endpoint.ts';

/*
 * Query parameters that the usage endpoints share. Schemas give their types; their meaning is read here, so that a refusal names the
 * parameter as the client wrote it.
 */

export const rangeQuery = {
  start_date: daySchema('The first day, as YYYY-MM-DD.'),
  end_date: daySchema('The last day, inclusive.'),
};
/** Parameters of endpoints that require both days. Usage refuses a range that lacks one. */
export const requiredRange = Object.keys(rangeQuery);
export const zoneQuery = {
  timezone: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      description: 'The IANA time zone in which days begin; `UTC` by default.',
    }),
  ),
};
const filterQuery = {
  model: nameFilter(),
  endpoint: nameFilter('With either prefix, such as `/v1/chat/completions`.'),
  api_key_id: idFilter(),
  user_id: idFilter('Only what this user used, of what `scope` covers.'),
};

const scopes = spelling({ own: UsageScope.OWN, tenant: UsageScope.TENANT });
export const scopeQuery = {
  scope: Type.Optional({
    ...scopes.schema,
    description: "`own`: the caller's usage; `tenant`: the organization's, for admins and owners.",
  }),
};

/** What narrows the calls of a report or list. */
export const callsQuery = { ...scopeQuery, ...rangeQuery, ...zoneQuery, ...filterQuery };
type CallsQuery = Static<TObject<typeof callsQuery>>;

/** What narrows the calls of a report or list, as Usage takes it; `fallback` says whose usage it is when the query does not. */
export const readCalls = (query: CallsQuery, fallback?: UsageScope) => ({
  scope: readScope(query, fallback),
  range: readRange(query),
  filter: readFilter(query),
});

/** Whose usage is asked for; `fallback` when the query does not say. */
export const readScope = (query: { scope?: 'own' | 'tenant' }, fallback: UsageScope = UsageScope.OWN): UsageScope =>
  scopes.value(query.scope) || fallback;

/** The days as the query gives them; Usage checks what they mean. */
export function readRange(query: { start_date?: string; end_date?: string; timezone?: string }) {
  return { ...readDays(query), timezone: query.timezone };
}

function readFilter(query: { model?: string; endpoint?: string; api_key_id?: string; user_id?: string }) {
  const id = (param: 'api_key_id' | 'user_id') =>
    query[param] === undefined ? undefined : readId(query[param], param);
  return {
    model: query.model,
    endpoint: meteredEndpoint(query.endpoint ?? ''),
    apiKeyId: id('api_key_id'),
    userId: id('user_id'),
  };
}
