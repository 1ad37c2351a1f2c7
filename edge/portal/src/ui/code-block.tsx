import { CopyButton } from './copy-button.tsx';

export function CodeBlock({ code, label }: { code: string; label: string }) {
  return (
    <section aria-label={label} className="relative min-w-0 rounded-lg bg-sunken">
      <div className="absolute top-2 right-2">
        <CopyButton text={code} />
      </div>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard.
        tabIndex={0}
        className="overflow-x-auto p-4 pt-12 sm:pt-4 sm:pr-24 font-mono text-sm leading-relaxed"
      >
        {code}
      </pre>
    </section>
  );
}
