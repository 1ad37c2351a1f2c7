import { createContext, type Dispatch, type SetStateAction, useContext, useState, useSyncExternalStore } from 'react';
import type { Api } from './client.ts';

type Cell<Value> = {
  get: () => Value;
  set: Dispatch<SetStateAction<Value>>;
  subscribe: (listener: () => void) => () => void;
  /** What of its value is still there when the tab is loaded anew; undefined for nothing. */
  lasting: () => unknown;
};

/** What pages keep while others are shown, by name. It is emptied when its user signs out, and most is gone when the tab is loaded anew. */
export type KeptStates = {
  cell: <Value>(name: string, initial: Value, lasting: (value: Value) => unknown) => Cell<Value>;
  /** Lets nothing last any longer than the page: it may be what the page cannot show. */
  distrust: () => void;
};

export const KeptStatesContext = createContext<KeptStates | null>(null);

const nothing = () => undefined;
/** For a state that lasts as it is. */
export const asItIs = <Value>(value: Value): Value => value;

/**
 * State as of useState, which is still there when its page is left and opened again: until the user signs out. Whoever goes on setting it
 * after that, such as an answer under way, changes nothing that anybody sees. What `lasting` returns of it, which JSON must be able to say,
 * is there even when the tab is loaded anew.
 */
export function useKeptState<Value>(
  name: string,
  initial: Value,
  lasting: (value: Value) => unknown = nothing,
): readonly [Value, Dispatch<SetStateAction<Value>>] {
  const kept = useContext(KeptStatesContext);
  if (kept === null) throw new Error('useKeptState stands outside KeptStatesContext');
  const [cell] = useState(() => kept.cell(name, initial, lasting));
  return [useSyncExternalStore(cell.subscribe, cell.get), cell.set];
}

/** Where the browser keeps the lasting states: as long as the tab is there, and for no other one. */
const storageKey = 'kept';
type Stored = { sessionId: string; states: Record<string, unknown> };

/** The states of one tab. They are written down whenever the tab is hidden or left: it may not come back. */
export function createKeptStates(api: Api): KeptStates {
  const cells = new Map<string, Cell<unknown>>();
  /** Those from before the tab was loaded anew, which no page has asked for yet; null while it is not known whose tab it is. */
  let before: Record<string, unknown> | null = null;
  let isDistrusted = false;
  const statesBefore = (): Record<string, unknown> => {
    const session = api.session();
    if (!('claims' in session)) return {};
    // A tab that was closed and is restored brings what was in it along, even if its user has signed out meanwhile.
    before ??= statesOf(session.claims.sessionId);
    return before;
  };
  const write = () => {
    const session = api.session();
    if (!('claims' in session) || isDistrusted) return;
    const states = { ...statesBefore() };
    for (const [name, cell] of cells) states[name] = cell.lasting();
    const isEmpty = Object.values(states).every((state) => state === undefined);
    store(isEmpty ? null : { sessionId: session.claims.sessionId, states });
  };
  // What one user saw must not be shown to the next.
  api.subscribe(() => {
    statesBefore();
    if (api.session().status !== 'signed-out') return;
    cells.clear();
    before = null;
    store(null);
  });
  window.addEventListener('pagehide', write);
  document.addEventListener('visibilitychange', () => document.visibilityState === 'hidden' && write());
  return {
    cell: <Value>(name: string, initial: Value, lasting: (value: Value) => unknown) => {
      const known = cells.get(name) as Cell<Value> | undefined;
      if (known !== undefined) return known;
      const made = cellOf((statesBefore()[name] ?? initial) as Value, lasting);
      cells.set(name, made as Cell<unknown>);
      return made;
    },
    distrust: () => {
      isDistrusted = true;
      store(null);
    },
  };
}

/** What was stored in a session; nothing, also from now on, if it was in another one. */
function statesOf(sessionId: string): Record<string, unknown> {
  try {
    const stored = JSON.parse(sessionStorage.getItem(storageKey) ?? 'null') as Stored | null;
    if (stored?.sessionId === sessionId) return stored.states;
  } catch {
    // Storage is blocked, or was written by something else.
  }
  store(null);
  return {};
}

function store(stored: Stored | null): void {
  try {
    sessionStorage.removeItem(storageKey);
    if (stored !== null) sessionStorage.setItem(storageKey, JSON.stringify(stored));
  } catch {
    // Storage is blocked or full: nothing lasts.
  }
}

function cellOf<Value>(initial: Value, lasting: (value: Value) => unknown): Cell<Value> {
  let value = initial;
  const listeners = new Set<() => void>();
  return {
    get: () => value,
    set: (next) => {
      value = typeof next === 'function' ? (next as (before: Value) => Value)(value) : next;
      for (const listener of listeners) listener();
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    lasting: () => lasting(value),
  };
}
