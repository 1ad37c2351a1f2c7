import type { ReactNode } from 'react';
import { classNames } from '../../ui/class-names.ts';
import { CopyButton } from '../../ui/copy-button.tsx';
import { AnswerImages, Sources } from './answer-extras.tsx';
import { AnswerText } from './answer-text.tsx';
import type { Turn } from './use-conversation.ts';

type TurnViewProps = {
  turn: Turn;
  /** Whether more of it is to come. */
  busy: boolean;
  /** Whether an answer is shown as its Markdown says, or as the text that it is. */
  formatted: boolean;
  /** What can be done about it. */
  actions?: ReactNode;
};

export function TurnView({ turn, busy, formatted, actions }: TurnViewProps) {
  const { role, content, reasoning = '', images = [], sources = [], note } = turn;
  const mine = role === 'user';
  return (
    <article className={classNames('grid min-w-0 grid-cols-[minmax(0,1fr)] gap-1', mine && 'justify-items-end')}>
      <span className="text-xs font-medium text-faint">{mine ? 'You' : 'Model'}</span>
      {reasoning !== '' && (
        // Open while there is nothing else.
        <details open={content === '' && images.length === 0} className="text-sm text-soft">
          <summary className="text-xs leading-6 font-medium hover:text-ink">Reasoning</summary>
          <p translate="no" dir="auto" className="mt-1 border-l-2 border-line pl-3 whitespace-pre-wrap wrap-anywhere">
            {reasoning}
          </p>
        </details>
      )}
      {/* A browser that translates the page puts its own text in place of this one, which then grows no more. */}
      <div
        translate="no"
        className={classNames(
          'max-w-full rounded-xl text-base leading-relaxed wrap-anywhere',
          mine && 'bg-sunken px-3.5 py-2',
          (mine || !formatted) && 'whitespace-pre-wrap',
        )}
      >
        {mine || !formatted ? content : <AnswerText text={content} growing={busy} />}
        {busy && <span className="mark animate-pulse-soft ml-0.5 inline-block h-4 w-1.5 translate-y-0.5 bg-ink" />}
      </div>
      <AnswerImages images={images} />
      <Sources sources={sources} />
      {(note !== undefined || actions !== undefined) && (
        <span className="flex flex-wrap items-center gap-2 text-xs text-faint">
          {note}
          {!mine && content !== '' && <CopyButton text={content} />}
          {actions}
        </span>
      )}
    </article>
  );
}
