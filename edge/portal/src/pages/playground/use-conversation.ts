import { useEffect, useRef, useState } from 'react';
import { ApiError } from '../../api/error.ts';
import { useApi } from '../../api/hooks.ts';
import { formatCount, formatDurationMs, numberOrText } from '../../format/number.ts';
import { type ChatUsage, type Message, streamChat } from './stream-chat.ts';

/** What was said, and what is to be said about it: how long it took, or why it is incomplete. */
export type Turn = Message & { note?: string };

/** What the fields beside the conversation say; empty where they say nothing. */
export type ChatSettings = { model: string; system: string; temperature: string; maxTokens: string };

/** A conversation with a model, in which at most one answer is under way. */
export function useConversation(onModelGone: () => void) {
  const api = useApi();
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);

  /** Returns, once the answer has ended, whether the prompt has become a part of the conversation: not if it was refused. */
  const send = async (prompt: string, settings: ChatSettings): Promise<boolean> => {
    const abort = new AbortController();
    running.current = abort;
    const history: Turn[] = [...turns, { role: 'user', content: prompt }];
    const timing = { startedAt: performance.now(), firstAt: 0 };
    let answer = '';
    let usage: ChatUsage | undefined;
    let finishReason: string | undefined;
    const show = (note?: string) =>
      setTurns([...history, { role: 'assistant', content: answer, ...(note === undefined ? {} : { note }) }]);
    show();
    setError(null);
    setBusy(true);
    try {
      for await (const piece of streamChat(api, requestOf(history, settings), abort.signal)) {
        if (piece.text !== undefined) {
          timing.firstAt ||= performance.now();
          answer += piece.text;
          show();
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
      if (answer === '' && !stopped) {
        setTurns(turns);
        return false;
      }
      show(stopped ? 'Stopped' : 'Interrupted');
    } finally {
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
    send,
    stop: () => running.current?.abort(),
    clear: () => {
      setTurns([]);
      setError(null);
    },
  };
}

function requestOf(history: readonly Turn[], { model, system, temperature, maxTokens }: ChatSettings) {
  const messages: Message[] = [
    ...(system.trim() === '' ? [] : [{ role: 'system' as const, content: system.trim() }]),
    // An answer that was stopped before its first word is none, and upstreams refuse an empty one.
    ...history.filter(({ content }) => content !== '').map(({ role, content }) => ({ role, content })),
  ];
  return {
    model,
    messages,
    ...(temperature === '' ? {} : { temperature: numberOrText(temperature) }),
    ...(maxTokens === '' ? {} : { max_tokens: numberOrText(maxTokens) }),
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
