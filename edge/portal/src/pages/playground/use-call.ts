import { ApiError } from '../../api/error.ts';
import { useApi } from '../../api/hooks.ts';
import { useKeptState } from '../../api/kept-state.ts';
import { formatDurationMs } from '../../format/number.ts';

type Ended<Answer> = { answer: Answer; note: string };

/**
 * A call that is answered as a whole, of which at most one is under way. It goes on while other pages are shown, until its user signs out.
 * `name` is what it is kept under.
 */
export function useCall<Answer>(name: string, onModelGone: () => void) {
  const api = useApi();
  const [ended, setEnded] = useKeptState<Ended<Answer> | null>(name, null);
  const [error, setError] = useKeptState<ApiError | null>(`${name} error`, null);
  const [busy, setBusy] = useKeptState(`${name} busy`, false);
  const [running] = useKeptState<{ current: AbortController | null }>(`${name} running`, { current: null });

  const run = async (path: string, body: object, read: (response: Response) => Promise<Answer>): Promise<void> => {
    if (running.current !== null) return;
    const abort = new AbortController();
    running.current = abort;
    const stopWatching = api.subscribe(() => {
      if (api.session().status === 'signed-out') abort.abort();
    });
    const startedAt = performance.now();
    setError(null);
    setBusy(true);
    try {
      const answer = await read(await api.fetch(`/api/v1${path}`, { method: 'POST', body, signal: abort.signal }));
      setEnded({ answer, note: `${formatDurationMs(performance.now() - startedAt)} in total` });
    } catch (failure) {
      if (!(failure instanceof ApiError) || abort.signal.aborted) return;
      setError(failure);
      if (failure.status === 404 || failure.status === 410) onModelGone();
    } finally {
      stopWatching();
      running.current = null;
      setBusy(false);
    }
  };
  return { ended, error, busy, run, stop: () => running.current?.abort() };
}
