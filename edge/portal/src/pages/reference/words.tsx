/** Paragraphs in which `code` stands between backticks. */
export function Words({ text }: { text: string }) {
  return (
    <div className="grid max-w-3xl gap-1.5 text-sm text-soft">
      {text.split(/\n\n+/).map((paragraph) => (
        <p key={paragraph} className="wrap-anywhere">
          {paragraph.split('`').map((part, index) =>
            index % 2 === 0 ? (
              part
            ) : (
              // biome-ignore lint/suspicious/noArrayIndexKey: a text does not change its order.
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
