import type { AnswerParts } from './answer-parts.ts';
import { OuterLink } from './answer-text.tsx';

/** The images of an answer. Of one that is elsewhere the address is shown: loading it would tell others that it is seen. */
export function AnswerImages({ images }: Pick<AnswerParts, 'images'>) {
  return images.map((address, index) =>
    address.startsWith('data:image/') ? (
      <img
        // biome-ignore lint/suspicious/noArrayIndexKey: images are only added at the end, and two may be alike.
        key={index}
        src={address}
        alt={`Answer, number ${index + 1}`}
        className="max-h-96 max-w-full rounded-lg border border-line"
      />
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: as above.
      <p key={index} className="markdown text-sm wrap-anywhere">
        <OuterLink href={address}>{address}</OuterLink>
      </p>
    ),
  );
}

/** The pages that an answer refers to, by the numbers that its text has for them. */
export function Sources({ sources }: Pick<AnswerParts, 'sources'>) {
  if (sources.length === 0) return null;
  return (
    <div className="markdown mt-2 text-sm">
      <p className="text-xs font-medium text-faint">Sources</p>
      <ol translate="no" aria-label="Sources" className="leading-6">
        {sources.map(({ url, title }) => (
          <li key={url} className="wrap-anywhere">
            <OuterLink href={url}>{title || url}</OuterLink>
          </li>
        ))}
      </ol>
    </div>
  );
}
