import { Tabs as Radix } from 'radix-ui';
import { type ReactNode, useEffect, useRef } from 'react';
import { classNames } from './class-names.ts';

type Tab = { value: string; label: string; content: ReactNode };

/** Tabs of one page. The selected tab is in the address (see useSearchParameter); an unknown one selects the first. */
export function Tabs({
  tabs,
  value,
  onChange,
  label,
}: {
  tabs: readonly Tab[];
  value: string;
  onChange: (value: string) => void;
  label: string;
}) {
  const list = useRef<HTMLDivElement>(null);
  const shown = tabs.some((tab) => tab.value === value) ? value : tabs[0]?.value;
  // biome-ignore lint/correctness/useExhaustiveDependencies: a newly selected tab scrolls into view where not all fit.
  useEffect(() => {
    const chosen = list.current?.querySelector<HTMLElement>('[data-state="active"]');
    if (list.current && chosen)
      list.current.scrollLeft = chosen.offsetLeft + (chosen.offsetWidth - list.current.clientWidth) / 2;
  }, [shown]);
  return (
    <Radix.Root value={shown} onValueChange={onChange} className="grid min-w-0 grid-cols-[minmax(0,1fr)] gap-5">
      <Radix.List
        ref={list}
        aria-label={label}
        className="scroll-hint relative -mx-4 flex gap-5 overflow-x-auto border-b border-line px-4 sm:mx-0 sm:px-0"
      >
        {tabs.map((tab) => (
          <Radix.Trigger
            key={tab.value}
            value={tab.value}
            className="-mb-px border-b-2 border-transparent py-2 text-sm font-medium whitespace-nowrap text-soft outline-offset-[-2px] hover:text-ink data-[state=active]:border-ink data-[state=active]:text-ink"
          >
            {tab.label}
          </Radix.Trigger>
        ))}
      </Radix.List>
      {tabs.map((tab) => (
        <Radix.Content
          key={tab.value}
          value={tab.value}
          className="grid min-w-0 grid-cols-[minmax(0,1fr)] gap-5 outline-none"
        >
          {tab.content}
        </Radix.Content>
      ))}
    </Radix.Root>
  );
}

type SegmentsProps = {
  label: string;
  value: string;
  onChange: (value: string) => void;
  choices: readonly { value: string; label: string; disabled?: boolean; title?: string }[];
};

/** A choice among a few options, all visible. */
export function Segments({ label, value, onChange, choices }: SegmentsProps) {
  return (
    <fieldset className="inline-flex max-w-full min-w-0 flex-wrap rounded-lg bg-sunken p-0.5">
      <legend className="sr-only">{label}</legend>
      {choices.map((choice) => (
        <button
          key={choice.value}
          type="button"
          aria-pressed={choice.value === value}
          disabled={choice.disabled}
          title={choice.title}
          onClick={() => onChange(choice.value)}
          className={classNames(
            'h-7.5 rounded-md px-3 text-sm font-medium whitespace-nowrap outline-offset-[-2px] disabled:cursor-not-allowed disabled:line-through disabled:opacity-60',
            choice.value === value ? 'bg-lifted text-ink shadow-sm' : 'text-soft hover:text-ink',
          )}
        >
          {choice.label}
        </button>
      ))}
    </fieldset>
  );
}
