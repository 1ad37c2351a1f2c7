import { useMemo } from 'react';
import type { Job } from '../../api/types.ts';
import { downloadFile } from '../../format/download.ts';
import { formatCount } from '../../format/number.ts';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Player } from '../../ui/player.tsx';
import { shownLengthMax } from './answers.ts';

/** What a job's call returned: to hear or to read, and as a file. */
export function JobResult({ id, result }: { id: string; result: NonNullable<Job['result']> }) {
  const { file, text } = useMemo(() => bodyOf(result), [result]);
  const type = file.type.split(';', 1)[0]!;
  const length = text?.length ?? 0;
  // Raw samples have no header that says how to play them.
  const isPlayable = type.startsWith('audio/') && type !== 'audio/pcm';
  return (
    <Card
      title="Result"
      description={
        length <= shownLengthMax
          ? `The body that the synchronous call would have returned (${type}).`
          : `The first ${formatCount(shownLengthMax)} of ${formatCount(length)} characters. The download has all of them.`
      }
      action={
        <Button
          size="small"
          icon="download"
          onClick={() => downloadFile(`${id}.${extensions[type] ?? type.split('/')[1]}`, file)}
        >
          Download
        </Button>
      }
    >
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
        {isPlayable && <Player label="Result" sound={file} />}
        {!isPlayable && text === null && (
          <p className="text-sm text-soft">Browsers can neither play nor show this type. The download has it.</p>
        )}
        {text !== null && (
          <CodeBlock label="Result" code={text.slice(0, shownLengthMax)} wraps={type !== 'application/json'} />
        )}
      </div>
    </Card>
  );
}

/** Where a file's name ends differently from its type. */
const extensions: Readonly<Record<string, string>> = {
  'audio/mpeg': 'mp3',
  'text/plain': 'txt',
  'application/x-subrip': 'srt',
};

/** The body as a file, and its text if it is one. The API gives what is not JSON as its type and base64 (openai-contract.md section 6). */
function bodyOf(result: object): { file: Blob; text: string | null } {
  if (!('b64' in result && 'content_type' in result)) {
    const text = JSON.stringify(result, null, 2);
    return { file: new Blob([text], { type: 'application/json' }), text };
  }
  const type = String(result.content_type);
  const bytes = Uint8Array.from(atob(String(result.b64)), (byte) => byte.charCodeAt(0));
  const isText = /^(text\/|application\/x-subrip)/.test(type);
  return { file: new Blob([bytes], { type }), text: isText ? new TextDecoder().decode(bytes) : null };
}
