import { createContext, type Dispatch, type SetStateAction, useContext, useState, useSyncExternalStore } from 'react';

type Cell<Value> = {
  get: () => Value;
  set: Dispatch<SetStateAction<Value>>;
  subscribe: (listener: () => void) => () => void;
};

/** What pages keep while others are shown, by name. It is emptied when its user signs out, and gone when the tab is loaded anew. */
export type KeptStates = Map<string, Cell<unknown>>;

export const KeptStatesContext = createContext<KeptStates | null>(null);

/**
 * State as of useState, which is still there when its page is left and opened again: until the user signs out. Whoever goes on setting it
 * after that, such as an answer under way, changes nothing that anybody sees.
 */
export function useKeptState<Value>(name: string, initial: Value): readonly [Value, Dispatch<SetStateAction<Value>>] {
  const kept = useContext(KeptStatesContext);
  if (kept === null) throw new Error('useKeptState stands outside KeptStatesContext');
  const [cell] = useState(() => {
    const known = kept.get(name) as Cell<Value> | undefined;
    const found = known ?? cellOf(initial);
    if (known === undefined) kept.set(name, found as Cell<unknown>);
    return found;
  });
  return [useSyncExternalStore(cell.subscribe, cell.get), cell.set];
}

function cellOf<Value>(initial: Value): Cell<Value> {
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
  };
}
