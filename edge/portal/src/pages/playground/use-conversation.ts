import { ApiError } from '../../api/error.ts';
import { useApi } from '../../api/hooks.ts';
import { useKeptState } from '../../api/kept-state.ts';
import { formatCount, formatDurationMs } from '../../format/number.ts';
import { type AnswerParts, isEmpty, joined, noParts } from './answer-parts.ts';
import { type ChatSettings, type Message, requestOf } from './chat-request.ts';
import { lastingTurns } from './lasting-turns.ts';
import { type ChatUsage, streamChat } from './stream-chat.ts';

/** What was said, what else came with an answer, whose it is, and what is to be said about it: how long it took, or why it is incomplete. */
export type Turn = Message & Partial<Omit<AnswerParts, 'text'>> & { model?: string; note?: string };

/** How long a growing answer waits until it is drawn again, in milliseconds: each time all of it is read as Markdown. */
const drawnAgainMs = 100;

/**
 * A conversation with a model, in which at most one answer is under way. It goes on while other pages are shown, until its user signs out;
 * what was said is still there when its tab is loaded anew.
 */
export function useConversation(onModelGone: () => void) {
  const api = useApi();
  const [turns, setTurns] = useKeptState<readonly Turn[]>('chat turns', [], lastingTurns);
  const [error, setError] = useKeptState<ApiError | null>('chat error', null);
  const [busy, setBusy] = useKeptState('chat busy', false);
  const [running] = useKeptState<{ current: AbortController | null }>('chat running', { current: null });

  /**
   * Asks for an answer to a history, whose last message is the user's, in place of what was said until now. Returns, once the answer has
   * ended, whether it has taken that place: not if it was refused, or stopped before its first word while there was another one.
   */
  const ask = async (history: readonly Turn[], settings: ChatSettings): Promise<boolean> => {
    const hadAnswer = history.length <= turns.length;
    const abort = new AbortController();
    running.current = abort;
    const stopWatching = api.subscribe(() => {
      if (api.session().status === 'signed-out') abort.abort();
    });
    const timing = { startedAt: performance.now(), firstAt: 0 };
    let answer = noParts;
    let usage: ChatUsage | undefined;
    let finishReason: string | undefined;
    let drawing: number | undefined;
    const show = (note?: string) => {
      window.clearTimeout(drawing);
      drawing = undefined;
      const { text, ...parts } = answer;
      const { model } = settings;
      setTurns([
        ...history,
        { role: 'assistant', content: text, model, ...parts, ...(note !== undefined && { note }) },
      ]);
    };
    show();
    setError(null);
    setBusy(true);
    try {
      for await (const piece of streamChat(api, requestOf(history, settings), abort.signal)) {
        const isFirst = isEmpty(answer);
        answer = joined(answer, piece);
        if (!isEmpty(answer)) {
          timing.firstAt ||= performance.now();
          if (isFirst) show();
          else drawing ??= window.setTimeout(show, drawnAgainMs);
        }
        usage = piece.usage ?? usage;
        finishReason = piece.finishReason ?? finishReason;
      }
      show([...cutOff(finishReason), noteOf(timing, usage)].join(' · '));
    } catch (failure) {
      const stopped = abort.signal.aborted;
      if (failure instanceof ApiError && !stopped) {
        setError(failure);
        if (failure.status === 404 || failure.status === 410) onModelGone();
      }
      if (isEmpty(answer) && (hadAnswer || !stopped)) {
        window.clearTimeout(drawing);
        setTurns(turns);
        return false;
      }
      show(stopped ? 'Stopped' : 'Interrupted');
    } finally {
      stopWatching();
      running.current = null;
      setBusy(false);
    }
    return true;
  };

  return {
    turns,
    error,
    busy,
    /** The same, without waiting until it is drawn. */
    isBusy: () => running.current !== null,
    ask,
    stop: () => running.current?.abort(),
    clear: () => {
      setTurns([]);
      setError(null);
    },
  };
}

/** Why an answer is incomplete although its stream ended properly; empty if it is not. */
function cutOff(finishReason: string | undefined): string[] {
  if (finishReason === 'length') return ['Cut off at the maximum number of tokens'];
  return finishReason === 'content_filter' ? ['Cut off by a content filter'] : [];
}

function noteOf({ startedAt, firstAt }: { startedAt: number; firstAt: number }, usage: ChatUsage | undefined): string {
  const parts = [`${formatDurationMs(performance.now() - startedAt)} in total`];
  if (firstAt > 0) parts.unshift(`first token after ${formatDurationMs(firstAt - startedAt)}`);
  if (usage !== undefined)
    parts.push(`${formatCount(usage.prompt_tokens)} + ${formatCount(usage.completion_tokens)} tokens`);
  return parts.join(' · ');
}
