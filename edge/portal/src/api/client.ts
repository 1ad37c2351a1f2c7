import { type ApiError, bodyOf, errorOfResponse, isTransient, sessionEnded, unreachable } from './error.ts';
import { learnTime } from './server-clock.ts';

export type Query = Readonly<Record<string, string | number | boolean | readonly string[] | null | undefined>>;

type RequestOptions = {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  query?: Query | undefined;
  body?: unknown;
  headers?: Readonly<Record<string, string>>;
  signal?: AbortSignal;
  /** How long to wait until the answer begins, in milliseconds, where half a minute is too little. */
  timeoutMs?: number | undefined;
};

/** Who is signed in, according to the access token. */
export type Claims = { userId: string; sessionId: string; tenantId: string; role: Role; operator: boolean };
export type Role = 'member' | 'admin' | 'owner';

type SessionState =
  | { status: 'starting' }
  /** `userId`: who was signed in here before, since the page was loaded; null if nobody was. */
  | { status: 'signed-out'; userId: string | null }
  | { status: 'unreachable' }
  | { status: 'signed-in'; claims: Claims }
  /** Ended unexpectedly: the page of the user who was signed in waits for them, out of sight. */
  | { status: 'ended'; claims: Claims };

/** Access to the API: the same public endpoints that any session may call. */
export type Api = {
  request<Answer>(path: string, options?: RequestOptions): Promise<Answer>;
  /** The raw response, for streams and files. Refusals throw, as in `request`. */
  fetch(path: string, options?: RequestOptions): Promise<Response>;
  /** A fresh access token, for the realtime socket. */
  token(): Promise<string>;
  start(): Promise<void>;
  signIn(email: string, password: string): Promise<void>;
  signOut(): Promise<void>;
  /** Ends the session here without telling the gateway, where it has already ended. */
  forget(): void;
  session(): SessionState;
  /** Whether the last request reached the gateway. */
  reachable(): boolean;
  /** The Idempotency-Keys of POSTs under way, by path: their forms may be closed meanwhile, and reopened for another try. */
  readonly onTheirWay: Map<string, string>;
  subscribe(listener: () => void): () => void;
};

type LoginResult = { access_token: string; expires_in: number };

/** A token is refreshed this long before it expires, so that no request goes out with one that expires on the way. */
const refreshAheadMs = 30_000;

/**
 * A refresh without an answer is repeated after this time, while the gateway still answers a repeat of the spent token with the same pair,
 * for 10 s (decisions.md, Auth). Later the session would end as if its token had been stolen. An answer to the first one may still come.
 */
const repeatRefreshMs = 5_000;

/** The gateway takes less than this for nearly any read or change: the answer is lost, and a browser by itself would wait for minutes. */
const answerTimeoutMs = 30_000;
/** How long the rest of an answer may take: the largest result of a job, at half a megabit a second. */
const bodyTimeoutMs = 600_000;

export function createApi(): Api {
  let session: SessionState = { status: 'starting' };
  let accessToken: string | null = null;
  /** Whether the access token has expired, or soon will. */
  let endsSoon = () => true;
  let refreshing: Promise<void> | null = null;
  let refreshAbort = new AbortController();
  /** What the last refresh asked about. */
  let refreshed: SessionState = session;
  let reached = true;
  const listeners = new Set<() => void>();
  // The tabs share one cookie: they tell each other who signs in, and, as null, that somebody signs out.
  const tabs = 'BroadcastChannel' in globalThis ? new BroadcastChannel('session') : null;
  tabs?.addEventListener('message', ({ data: userId }: MessageEvent<string | null>) => {
    if (userId === null) setSession(signedOut());
    // If several tabs ask at once, the gateway answers all of them with the same pair of tokens (decisions.md, Auth).
    else if (isAnother(userId)) window.location.reload();
    else if (session.status === 'signed-out' || session.status === 'ended') {
      abandonRefresh();
      refresh().catch(() => {});
    }
  });

  const changed = () => {
    for (const listener of listeners) listener();
  };
  const signedOut = (): SessionState => {
    const before = session.status === 'signed-out' ? session.userId : null;
    return { status: 'signed-out', userId: 'claims' in session ? session.claims.userId : before };
  };
  const setSession = (next: SessionState) => {
    if (next.status !== 'signed-in') accessToken = null;
    session = next;
    changed();
  };

  const send = async (path: string, options: RequestOptions, token: string | null): Promise<Response> => {
    const { method = 'GET', query, body, headers, signal } = options;
    const isForm = body instanceof FormData;
    try {
      const response = await fetch(addressOf(path, query), {
        method,
        credentials: 'same-origin',
        headers: {
          ...(token === null ? {} : { authorization: `Bearer ${token}` }),
          ...(body === undefined || isForm ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: isForm ? body : JSON.stringify(body) }),
        ...(signal === undefined ? {} : { signal }),
      });
      setReached(true);
      learnTime(response.headers.get('date'));
      return response;
    } catch (error) {
      if (error instanceof DOMException && error.name === 'AbortError') throw error;
      setReached(false);
      throw unreachable();
    }
  };
  /** Whether a session has ended meanwhile, as by another tab, and perhaps another one begun, about which an answer to the former says nothing. */
  const isOver = (before: SessionState) =>
    session !== before && (session.status === 'signed-out' || session.status === 'signed-in');
  /** Records that the session is over; returns the error to throw. */
  const end = (): ApiError => {
    setSession('claims' in session ? { status: 'ended', claims: session.claims } : signedOut());
    return sessionEnded();
  };
  const setReached = (next: boolean) => {
    if (next === reached) return;
    reached = next;
    changed();
  };

  /** Whether somebody else is, or was, signed in here: then the page, and everything requested from it, is theirs. */
  const isAnother = (userId: string) => 'claims' in session && session.claims.userId !== userId;

  /** Goes on with a session. If the page belongs to somebody else it is reloaded, and nothing more is requested on their behalf. */
  const accept = (result: LoginResult): Promise<void> => {
    if (isAnother(claimsOf(result.access_token).userId)) {
      window.location.reload();
      return new Promise(() => {});
    }
    accessToken = result.access_token;
    endsSoon = passed(result.expires_in * 1000 - refreshAheadMs);
    setSession({ status: 'signed-in', claims: claimsOf(result.access_token) });
    return Promise.resolve();
  };

  /** The answer to a refresh, or to its repeat: whichever comes first. */
  const refreshAnswer = async (): Promise<Response> => {
    const { signal } = refreshAbort;
    const ask = () => inTime({ method: 'POST', signal }, (timed) => send('/api/v1/auth/refresh', timed, null));
    const first = ask();
    const late = new Promise<null>((pass) => setTimeout(pass, repeatRefreshMs, null));
    const answer = await Promise.race([first, late]);
    if (answer !== null) return answer;
    setReached(false);
    return Promise.any([first, ask()]).catch(() => {
      throw unreachable();
    });
  };

  /** At most one refresh runs at a time, since a refresh token may be spent only once. The refresh token is in an HttpOnly cookie. */
  const refresh = (): Promise<void> => {
    if (refreshing !== null) return refreshing;
    const own = (async () => {
      refreshed = session;
      const response = await refreshAnswer();
      if (!response.ok) throw await errorOfResponse(response);
      const result = await bodyOf<LoginResult>(response);
      if (isOver(refreshed)) throw sessionEnded();
      await accept(result);
    })().finally(() => {
      if (refreshing === own) refreshing = null;
    });
    refreshing = own;
    return own;
  };
  /** Once there is another session: a late answer about the former would replace its cookie. */
  const abandonRefresh = () => {
    refreshAbort.abort();
    refreshAbort = new AbortController();
    refreshing = null;
  };
  /** Whoever has signed in again meanwhile goes on with that. */
  const refreshOrSignOut = async () => {
    const asking = refresh();
    const before = refreshed;
    try {
      await asking;
    } catch (error) {
      if (!isOver(before)) throw isTransient(error) ? error : end();
      if (session.status !== 'signed-in') throw sessionEnded();
    }
  };

  const authorizedFetch = async (path: string, options: RequestOptions = {}): Promise<Response> => {
    const askedBy = 'claims' in session ? session.claims.userId : null;
    const sendAsAsked = (): Promise<Response> => {
      // Somebody else may have signed in meanwhile: nothing is asked for in their name.
      if (askedBy !== null && isAnother(askedBy)) throw sessionEnded();
      return send(path, options, accessToken);
    };
    if (accessToken !== null && endsSoon()) await refreshOrSignOut();
    let response = await sendAsAsked();
    if (response.status === 401 && accessToken !== null) {
      await refreshOrSignOut();
      const before = session;
      response = await sendAsAsked();
      if (response.status === 401) throw isOver(before) ? sessionEnded() : end();
    }
    if (!response.ok) throw await errorOfResponse(response);
    return response;
  };

  return {
    fetch: authorizedFetch,
    request: async <Answer>(path: string, options: RequestOptions = {}) => {
      const response = await inTime(options, (timed) => authorizedFetch(path, timed));
      return response.status === 204 ? (undefined as Answer) : bodyOf<Answer>(response);
    },
    token: async () => {
      if (endsSoon()) await refreshOrSignOut();
      return accessToken ?? '';
    },
    start: async () => {
      setSession({ status: 'starting' });
      try {
        await refresh();
      } catch (error) {
        // Whoever has signed in or out meanwhile made this answer old.
        if (session.status !== 'starting') return;
        setSession(isTransient(error) ? { status: 'unreachable' } : signedOut());
      }
    },
    signIn: async (email, password) => {
      const login = { method: 'POST', body: { email, password } } as const;
      const response = await inTime(login, (timed) => send('/api/v1/auth/login', timed, null));
      if (!response.ok) throw await errorOfResponse(response);
      const result = await bodyOf<LoginResult>(response);
      abandonRefresh();
      tabs?.postMessage(claimsOf(result.access_token).userId);
      await accept(result);
    },
    signOut: async () => {
      await inTime({ method: 'POST' }, (timed) => authorizedFetch('/api/v1/auth/logout', timed));
      setSession(signedOut());
      tabs?.postMessage(null);
    },
    forget: () => setSession(signedOut()),
    session: () => session,
    reachable: () => reached,
    onTheirWay: new Map(),
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

/** Tells from now on whether this time has passed, by either clock: one stands still in some browsers while the computer sleeps, one may be set. */
function passed(ms: number): () => boolean {
  const [endsMs, endsAtMs] = [performance.now() + ms, Date.now() + ms];
  return () => performance.now() > endsMs || Date.now() > endsAtMs;
}

/**
 * Makes a request, and gives it up when its caller does, or when no answer begins in time. A long one, such as the result of a job, takes as
 * long to arrive as its network makes it.
 */
async function inTime(options: RequestOptions, ask: (options: RequestOptions) => Promise<Response>): Promise<Response> {
  const late = new AbortController();
  const giveUpAfter = (ms: number) => setTimeout(() => late.abort(new DOMException('Too late', 'TimeoutError')), ms);
  const timer = giveUpAfter(options.timeoutMs ?? answerTimeoutMs);
  const signal = options.signal === undefined ? late.signal : AbortSignal.any([options.signal, late.signal]);
  try {
    return await ask({ ...options, signal });
  } finally {
    clearTimeout(timer);
    giveUpAfter(bodyTimeoutMs);
  }
}

function addressOf(path: string, query: Query | undefined): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === undefined || value === null || value === '') continue;
    for (const one of [value].flat()) parameters.append(name, String(one));
  }
  const text = parameters.toString();
  return text === '' ? path : `${path}?${text}`;
}

/** Reads the claims of a token. They only decide what is shown; the gateway decides what is allowed. */
function claimsOf(token: string): Claims {
  const payload = token.split('.')[1] ?? '';
  const bytes = Uint8Array.from(atob(payload.replaceAll('-', '+').replaceAll('_', '/')), (c) => c.charCodeAt(0));
  const claims = JSON.parse(new TextDecoder().decode(bytes)) as Record<string, unknown>;
  const role = claims.role === 'owner' || claims.role === 'admin' ? claims.role : 'member';
  return {
    userId: String(claims.sub ?? ''),
    sessionId: String(claims.sid ?? ''),
    tenantId: String(claims.tenant_id ?? ''),
    role,
    operator: claims.operator === true,
  };
}
