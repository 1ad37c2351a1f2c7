import { keepPreviousData, type UseQueryResult, useMutation, useQuery, useQueryClient } from '@tanstack/react-query';
import { createContext, useContext, useEffect, useRef, useSyncExternalStore } from 'react';
import { useToast } from '../ui/toast.tsx';
import type { Api, Claims, Query } from './client.ts';
import { ApiError, isTransient } from './error.ts';
import type { List, Member } from './types.ts';

export const ApiContext = createContext<Api | null>(null);

export function useApi(): Api {
  const api = useContext(ApiContext);
  if (api === null) throw new Error('useApi stands outside ApiContext');
  return api;
}

export function useSession() {
  const api = useApi();
  return useSyncExternalStore(api.subscribe, api.session);
}

export function useReachable(): boolean {
  const api = useApi();
  return useSyncExternalStore(api.subscribe, api.reachable);
}

/** The signed-in user's claims; only for components inside the session gate. */
export function useClaims(): Claims {
  const session = useSession();
  const last = useRef<Claims>({ userId: '', sessionId: '', tenantId: '', role: 'member', operator: false });
  if ('claims' in session) last.current = session.claims;
  return last.current;
}

export function useIsAdmin(): boolean {
  return useClaims().role !== 'member';
}

/** Tells which members the user may change: only an owner adds, changes or removes owners. */
export function useMayChange(): (member: Pick<Member, 'role'>) => boolean {
  const isOwner = useClaims().role === 'owner';
  return (member) => isOwner || member.role !== 'owner';
}

/** How soon a page asks again for what could not be read, in milliseconds. */
const retryMs = 4000;

/** After how many milliseconds a query is repeated, by its own interval or because it failed; false: never. */
export const askAgainMs = (error: unknown, intervalMs?: number | null): number | false =>
  isTransient(error) ? retryMs : (intervalMs ?? false);

export type GetOptions<Answer> = {
  enabled?: boolean;
  /** How often to ask again; as a function, decided by the last answer: null when it is final. */
  refetchIntervalMs?: number | ((answer: Answer | undefined) => number | null | undefined);
  keepPrevious?: boolean;
  /** Asks by POST, for what is found by a secret, which belongs in no address. */
  body?: object;
};

/**
 * Reads `/api/v1` + `path`. The cache key is the path and the query, so all views of one address share one copy. A transient failure is
 * retried every few seconds, so pages recover on their own.
 */
export function useGet<Answer>(
  path: string,
  query?: Query,
  options: GetOptions<Answer> = {},
): UseQueryResult<Answer, ApiError> {
  const api = useApi();
  const { refetchIntervalMs: interval, body } = options;
  const asked = body === undefined ? {} : { method: 'POST' as const, body };
  const intervalAfter = (answer: Answer | undefined) => (typeof interval === 'function' ? interval(answer) : interval);
  return useQuery<Answer, ApiError>({
    queryKey: [path, query, body].filter((part) => part !== undefined),
    queryFn: ({ signal }) => api.request<Answer>(`/api/v1${path}`, { ...asked, query, signal }),
    enabled: options.enabled ?? true,
    placeholderData: options.keepPrevious === false ? undefined : (keepPreviousData as never),
    refetchInterval: ({ state }) => askAgainMs(state.error, intervalAfter(state.data)),
    refetchOnWindowFocus: ({ state }) => (intervalAfter(state.data) === null ? false : 'always'),
  });
}

/**
 * Reads a whole list, all pages after the first at once: for rows that are looked up among all of them. Only for lists that stay
 * short, such as plans: not for keys and members, of which there are thousands, nor for what calls leave behind.
 */
export function useWholeList<Item>(
  path: string,
  { query, ...options }: { query?: Query; refetchIntervalMs?: number } = {},
): UseQueryResult<Item[], ApiError> {
  const api = useApi();
  return useQuery<Item[], ApiError>({
    queryKey: [path, 'whole', query].filter((part) => part !== undefined),
    queryFn: async ({ signal }) => {
      const read = (page: number) =>
        api.request<List<Item>>(`/api/v1${path}`, { query: { ...query, page, limit: 100 }, signal });
      const first = await read(1);
      const others = Array.from({ length: Math.max(first.pagination.total_pages - 1, 0) }, (_, index) =>
        read(index + 2),
      );
      return [first, ...(await Promise.all(others))].flatMap((list) => list.data);
    },
    refetchInterval: ({ state }) => askAgainMs(state.error, options.refetchIntervalMs),
  });
}

type Change = {
  method: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** The path below `/api/v1`. */
  path: string;
  body?: unknown;
  /** How long its answer may take, in milliseconds, if longer than usual. */
  timeoutMs?: number;
};

/**
 * The fields of a form that differ from `before`, their values when the form was opened. An edit that sent more would undo what somebody
 * else has changed since.
 */
export const changedFields = <Fields extends object>(before: Fields, fields: Fields): Partial<Fields> =>
  Object.fromEntries(
    Object.entries(fields).filter(
      ([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name as keyof Fields]),
    ),
  ) as Partial<Fields>;

type ActionOptions<Answer> = {
  /**
   * Paths whose cached answers the change makes stale, with everything below them; so does learning that the thing to be changed is gone,
   * or no longer as it is shown.
   */
  stale?: readonly string[];
  onSuccess?: (answer: Answer) => void;
  /**
   * What comes next, such as closing a dialog or leading to another page. Not if whoever waited for the answer has gone on: by then
   * something else is there, with what they are typing.
   */
  onDone?: (answer: Answer) => void;
  onError?: (error: ApiError) => void;
  /** An error has no place on the page. Once its place is gone, any is told in a toast. */
  complains?: boolean;
};

/**
 * Changes something. A second call while the first is under way does nothing, and a repeat after a lost answer has the same
 * Idempotency-Key, even from a form that was reopened meanwhile: a double click makes only one thing.
 */
export function useAction<Answer = void>(options: ActionOptions<Answer>) {
  const api = useApi();
  const queries = useQueryClient();
  const { complain } = useToast();
  const running = useRef(false);
  const place = useRef<{ isThere: boolean; next: (() => void) | null }>({ isThere: false, next: null });
  // A page that waits out of sight for its user to sign in again does what comes next when it is back.
  useEffect(() => {
    const here = place.current;
    here.isThere = true;
    here.next?.();
    here.next = null;
    return () => {
      here.isThere = false;
    };
  }, []);
  const idempotencyKey = useRef<string | null>(null);
  const readAgain = (stale: readonly string[] = []) => {
    void queries.invalidateQueries({
      predicate: ({ queryKey }) => stale.some((path) => String(queryKey[0]).startsWith(path)),
    });
  };
  // Whoever waits for the answer may type on: what it is taken for is what was asked, not what the fields say by then.
  const mutation = useMutation<Answer, ApiError, { change: Change; asked: ActionOptions<Answer> }>({
    mutationFn: ({ change: { method, path, body, timeoutMs } }) => {
      if (method !== 'POST') return api.request<Answer>(`/api/v1${path}`, { method, body, timeoutMs });
      idempotencyKey.current ??= api.onTheirWay.get(path) ?? randomKey();
      api.onTheirWay.set(path, idempotencyKey.current);
      const headers = { 'idempotency-key': idempotencyKey.current };
      return api.request<Answer>(`/api/v1${path}`, { method, body, headers, timeoutMs }).catch((error: unknown) => {
        throw isReused(error) ? carriedOut(error) : error;
      });
    },
    onSuccess: (answer, { asked }) => {
      idempotencyKey.current = null;
      asked.onSuccess?.(answer);
      if (place.current.isThere) asked.onDone?.(answer);
      else place.current.next = () => asked.onDone?.(answer);
      readAgain(asked.stale);
    },
    onError: (error, { asked }) => {
      // After a refusal the next try is another request. Without an answer, or with one from a proxy that got none, it may have worked, so
      // the key stays.
      if (!isTransient(error)) idempotencyKey.current = null;
      asked.onError?.(error);
      const isGone = !place.current.isThere && api.session().status === 'signed-in';
      if (asked.complains || isGone) complain(error);
      if ([404, 409].includes(error.status) || isTransient(error) || isReused(error)) readAgain(asked.stale);
    },
    onSettled: (_answer, _error, { change: { path } }) => {
      running.current = false;
      api.onTheirWay.delete(path);
    },
  });
  return {
    run: (change: Change) => {
      if (running.current) return;
      running.current = true;
      mutation.mutate({ change, asked: options });
    },
    pending: mutation.isPending,
    error: mutation.error,
    answer: mutation.data,
    reset: mutation.reset,
  };
}

/** Whether an attempt was refused because an earlier one with other values, whose answer was lost, was carried out. */
const isReused = (error: unknown): error is ApiError =>
  error instanceof ApiError && error.code === 'idempotency_key_reused';

const carriedOut = (error: ApiError): ApiError =>
  new ApiError({
    ...error,
    message: 'Your earlier attempt went through, though its answer was lost. Check before you send again.',
  });

/** 128 random bits in hex. crypto.randomUUID is missing outside secure contexts, such as plain HTTP on a local network. */
function randomKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
