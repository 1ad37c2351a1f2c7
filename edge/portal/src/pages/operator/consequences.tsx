import { useGet } from '../../api/hooks.ts';
import { currentMs } from '../../api/server-clock.ts';
import { CodeBlock } from '../../ui/code-block.tsx';
import { type Draft, previewHeaders, previewMail, timelineOf } from './retirement-preview.ts';
import { Timeline } from './timeline.tsx';
import type { AdminModel } from './types.ts';

/** Everything that a retirement will cause, shown before it is sent: the timeline, the headers and the next mail. */
export function Consequences({ draft }: { draft: Draft }) {
  const model = useGet<AdminModel>(`/admin/models/${encodeURIComponent(draft.model)}`, undefined, {
    keepPrevious: false,
  });
  const isPublic = model.data?.visibility !== 'private';
  const mail = previewMail(draft, isPublic, window.location.origin);
  return (
    <div className="grid gap-4 rounded-lg border border-line p-4">
      <p className="text-sm font-medium">What will happen</p>
      <Timeline points={timelineOf(draft, new Date(currentMs()))} />
      <CodeBlock label="Preview of the headers" code={previewHeaders(draft, window.location.origin)} />
      {mail !== null && <CodeBlock label="Preview of the mail" code={mail} />}
    </div>
  );
}
