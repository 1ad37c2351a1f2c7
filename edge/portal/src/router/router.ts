import { useSyncExternalStore } from 'react';

/** The address, as the portal's pages see it. */
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

/** Goes to an address of the portal. `replace` adds no entry to the history: for redirects and filters. */
export function navigate(to: string, { replace = false }: { replace?: boolean } = {}): void {
  const before = window.location.pathname;
  window.history[replace ? 'replaceState' : 'pushState'](null, '', to);
  window.dispatchEvent(new Event(changeEvent));
  if (window.location.pathname !== before) window.scrollTo(0, 0);
}

/**
 * A query parameter as state: filters and tabs are kept in the address, so that a link shows what its sender saw. Changing one returns to
 * the first page of the list.
 */
export function useSearchParameter(name: string, fallback: string): [string, (value: string) => void] {
  const { path, search } = usePlace();
  const value = new URLSearchParams(search).get(name) ?? fallback;
  const set = (next: string) =>
    navigate(path + searchWith({ page: null, [name]: next === fallback ? null : next }), { replace: true });
  return [value, set];
}

/** The current page of a list, from 1. It is also in the address, so that Back from one of its rows returns to it. */
export function usePageParameter(): [number, (page: number) => void] {
  const [text, setText] = useSearchParameter('page', '1');
  return [/^[1-9]\d{0,8}$/.test(text) ? Number(text) : 1, (page) => setText(String(page))];
}

/** The current query with some parameters set, and those that are null removed. */
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
 * Matches `/keys/:id` against a path; null if it does not match. An id stays as it is in the path, and may be put into one: decoded, it
 * could lead elsewhere. A last segment `*name` takes the whole rest and decodes it, slashes included, since model ids may contain some.
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
    if (segment.startsWith(':')) parameters[segment.slice(1)] = value;
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
