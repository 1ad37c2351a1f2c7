import { useSyncExternalStore } from 'react';

/** The address as the portal's pages see it. */
type Place = { path: string; search: string };

const changeEvent = 'portal:place';
let cached: Place = { path: '', search: '' };

function currentPlace(): Place {
  const { pathname, search } = window.location;
  if (cached.path !== pathname || cached.search !== search) cached = { path: pathname, search };
  return cached;
}

function subscribe(listener: () => void): () => void {
  window.addEventListener('popstate', listener);
  window.addEventListener(changeEvent, listener);
  return () => {
    window.removeEventListener('popstate', listener);
    window.removeEventListener(changeEvent, listener);
  };
}

export function usePlace(): Place {
  return useSyncExternalStore(subscribe, currentPlace);
}

/** Goes to an address of the portal. `replace` keeps it out of the history: for redirects and filters. */
export function navigate(to: string, { replace = false }: { replace?: boolean } = {}): void {
  const before = window.location.pathname;
  window.history[replace ? 'replaceState' : 'pushState'](null, '', to);
  window.dispatchEvent(new Event(changeEvent));
  if (window.location.pathname !== before) window.scrollTo(0, 0);
}

/**
 * A query parameter as state: filters and tabs live in the address, so that a link shows what its sender saw. Another filter or tab
 * begins at the first page of its list.
 */
export function useSearchParameter(name: string, fallback: string): [string, (value: string) => void] {
  const { path, search } = usePlace();
  const value = new URLSearchParams(search).get(name) ?? fallback;
  const set = (next: string) =>
    navigate(path + searchWith({ page: null, [name]: next === fallback ? null : next }), { replace: true });
  return [value, set];
}

/** The page of the list on show, from 1, in the address as well: Back from one of its rows leads to it. */
export function usePageParameter(): [number, (page: number) => void] {
  const [text, setText] = useSearchParameter('page', '1');
  return [/^[1-9]\d{0,8}$/.test(text) ? Number(text) : 1, (page) => setText(String(page))];
}

/** The current query with some parameters set, and those with null taken out. */
export function searchWith(changes: Readonly<Record<string, string | null>>): string {
  const parameters = new URLSearchParams(window.location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null) parameters.delete(name);
    else parameters.set(name, value);
  }
  const text = parameters.toString();
  return text === '' ? '' : `?${text}`;
}

/**
 * Matches `/keys/:id` against a path; null when it does not fit. A last segment `*name` takes the rest with its
 * slashes, since model ids have some.
 */
export function matchPath(pattern: string, path: string): Readonly<Record<string, string>> | null {
  const wanted = pattern.split('/').slice(1);
  const given = path.replace(/\/+$/, '').split('/').slice(1);
  const parameters: Record<string, string> = {};
  for (const [index, segment] of wanted.entries()) {
    if (segment.startsWith('*')) {
      const rest = given.slice(index).join('/');
      parameters[segment.slice(1)] = decode(rest);
      return rest === '' ? null : parameters;
    }
    const value = given[index];
    if (value === undefined) return segment === '' && wanted.length === 1 ? parameters : null;
    if (segment.startsWith(':')) parameters[segment.slice(1)] = decode(value);
    else if (segment !== value) return null;
  }
  return given.length > wanted.length ? null : parameters;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
