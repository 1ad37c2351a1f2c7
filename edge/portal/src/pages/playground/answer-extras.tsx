import { downloadFile } from '../../format/download.ts';
import { Button } from '../../ui/button.tsx';
import type { AnswerParts } from './answer-parts.ts';
import { OuterLink } from './answer-text.tsx';

/** The images of an answer. Of one that is elsewhere the address is shown: loading it would tell others that it is seen. */
export function AnswerImages({ images }: Pick<AnswerParts, 'images'>) {
  return images.map((address, index) =>
    address.startsWith('data:image/') ? (
      // biome-ignore lint/suspicious/noArrayIndexKey: images are only added at the end, and two may be alike.
      <AnswerImage key={index} address={address} number={index + 1} />
    ) : (
      // biome-ignore lint/suspicious/noArrayIndexKey: as above.
      <p key={index} className="markdown text-sm wrap-anywhere">
        <OuterLink href={address}>{address}</OuterLink>
      </p>
    ),
  );
}

function AnswerImage({ address, number }: { address: string; number: number }) {
  const download = () => {
    const file = fileOf(address);
    if (file !== null) downloadFile(`image-${number}.${file.extension}`, file.blob);
  };
  return (
    <div className="grid justify-items-start gap-2">
      <img
        src={address}
        alt={`Answer, number ${number}`}
        className="max-h-96 max-w-full rounded-lg border border-line"
      />
      <Button size="small" icon="download" aria-label={`Download image ${number}`} onClick={download}>
        Download
      </Button>
    </div>
  );
}

/** The file in an address that includes it in base64, of whatever size: browsers save no long address. Null if it is none. */
function fileOf(address: string): { blob: Blob; extension: string } | null {
  const { type, extension, content } =
    /^data:(?<type>image\/(?<extension>[a-z0-9]+)[^;,]*);base64,(?<content>.*)$/s.exec(address)?.groups ?? {};
  if (type === undefined || extension === undefined || content === undefined) return null;
  try {
    return { blob: new Blob([Uint8Array.from(atob(content), (byte) => byte.charCodeAt(0))], { type }), extension };
  } catch {
    return null;
  }
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
