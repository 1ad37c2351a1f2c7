import { EmptyState } from '../../ui/empty-state.tsx';

/** What someone who only wants to see the model at work may ask. */
const suggestions = [
  'Explain what an API gateway does, in three sentences.',
  'Write a regular expression for dates such as 2026-01-31.',
  'Translate “Where is the station?” into five languages.',
];

/** In place of a conversation that has not begun. */
export function Suggestions({ onChoose }: { onChoose: (suggestion: string) => void }) {
  return (
    <EmptyState
      icon="play"
      title="Say something to the model"
      action={
        <ul aria-label="Suggestions" className="grid justify-items-center gap-2">
          {suggestions.map((suggestion) => (
            <li key={suggestion}>
              <button
                type="button"
                className="rounded-2xl border border-line px-3 py-1 text-sm text-soft hover:bg-sunken hover:text-ink"
                onClick={() => onChoose(suggestion)}
              >
                {suggestion}
              </button>
            </li>
          ))}
        </ul>
      }
    >
      It uses your session, within your limits, and is metered like any other call.
    </EmptyState>
  );
}
