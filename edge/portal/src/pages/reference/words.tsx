/** Paragraphs in which text between backticks is code. */
export function Words({ text }: { text: string }) {
  return (
    <div className="grid max-w-3xl gap-1.5 text-sm text-soft">
      {text.split(/\n\n+/).map((paragraph) => (
        <p key={paragraph} className="wrap-anywhere">
          {paragraph.split('`').map((part, index) =>
            index % 2 === 0 ? (
              part
            ) : (
              // biome-ignore lint/suspicious/noArrayIndexKey: the order of a text does not change.
              <code key={index} className="font-mono text-ink">
                {part}
              </code>
            ),
          )}
        </p>
      ))}
    </div>
  );
}
