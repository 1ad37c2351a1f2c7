import { classNames } from './class-names.ts';
import { CopyButton } from './copy-button.tsx';

/** Text to copy. Code scrolls sideways unless it `wraps`, as prose such as a mail does. */
export function CodeBlock({ code, label, wraps = false }: { code: string; label: string; wraps?: boolean }) {
  return (
    <section aria-label={label} className="relative min-w-0 rounded-lg bg-sunken">
      <div className="absolute top-2 right-2">
        <CopyButton text={code} />
      </div>
      <pre
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrolling element must be reachable by keyboard.
        tabIndex={0}
        className={classNames(
          'overflow-x-auto p-4 pt-12 sm:pt-4 sm:pr-24 font-mono text-sm leading-relaxed',
          wraps && 'whitespace-pre-wrap wrap-anywhere',
        )}
      >
        {code}
      </pre>
    </section>
  );
}
