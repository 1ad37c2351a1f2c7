import { type ReactNode, useEffect, useRef } from 'react';
import { useSearchParameter } from '../../router/router.ts';
import { Badge } from '../../ui/badge.tsx';
import { classNames } from '../../ui/class-names.ts';
import { CodeBlock } from '../../ui/code-block.tsx';
import { Icon } from '../../ui/icons.tsx';
import { NameParts } from '../../ui/name-parts.tsx';
import type { Tone } from '../../ui/notice.tsx';
import { type Content, curlOf, type Operation, type Schemas } from './description.ts';
import { FieldList, Fields } from './fields.tsx';
import { Words } from './words.tsx';

const tones: Readonly<Record<string, Tone>> = { GET: 'neutral', DELETE: 'danger' };

/** One operation: a list entry that expands. The open one is in the address, so that a link leads to it. */
export function OperationEntry({ operation, schemas }: { operation: Operation; schemas: Schemas }) {
  const { operationId, method, path, summary } = operation;
  const [openId, setOpenId] = useSearchParameter('operation', '');
  const open = openId === operationId;
  const line = useRef<HTMLButtonElement>(null);
  // biome-ignore lint/correctness/useExhaustiveDependencies: only when the address led here; someone who opens an entry can see it.
  useEffect(() => {
    if (open) line.current?.scrollIntoView({ block: 'center' });
  }, []);
  return (
    <li>
      <button
        ref={line}
        type="button"
        aria-expanded={open}
        onClick={() => setOpenId(open ? '' : operationId)}
        className="flex w-full items-center gap-x-3 px-5 py-2.5 text-left text-sm outline-offset-[-2px] hover:bg-sunken/60"
      >
        <span className="flex min-w-0 flex-1 flex-wrap items-center gap-x-3 gap-y-0.5">
          <span className="w-15 shrink-0">
            <Badge tone={tones[method] ?? 'accent'}>{method}</Badge>
          </span>
          <code className="min-w-0 font-mono wrap-anywhere max-[17rem]:w-full min-[17rem]:max-sm:flex-1 sm:w-96">
            <NameParts name={path} />
          </code>
          <span className="min-w-0 text-soft max-sm:w-full">{summary}</span>
        </span>
        <Icon name="down" className={classNames('text-faint transition-transform', open && 'rotate-180')} />
      </button>
      {open && <Details operation={operation} schemas={schemas} />}
    </li>
  );
}

function Details({ operation, schemas }: { operation: Operation; schemas: Schemas }) {
  const { summary, description, parameters = [], requestBody, responses } = operation;
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-5 border-t border-line px-5 py-4">
      <Words text={description} />
      <CodeBlock label={`${summary} with curl`} code={curlOf(operation, schemas, window.location.origin)} />
      {parameters.length > 0 && (
        <Part title="Parameters">
          <FieldList
            label={`Parameters of ${summary}`}
            schemas={schemas}
            fields={parameters.map(({ name, schema, required = false, description: text }) => ({
              name,
              schema,
              required,
              description: text,
            }))}
          />
        </Part>
      )}
      {requestBody !== undefined && <Contents title="Body" content={requestBody.content} schemas={schemas} />}
      {Object.entries(responses)
        .filter(([status]) => status !== 'default')
        .map(([status, response]) => (
          <Contents
            key={status}
            title={`Response ${status}`}
            note={response.description}
            content={response.content ?? {}}
            schemas={schemas}
          />
        ))}
    </div>
  );
}

type ContentsProps = { title: string; note?: string; content: Content; schemas: Schemas };

function Contents({ title, note, content, schemas }: ContentsProps) {
  const kinds = Object.entries(content);
  return (
    <Part title={title} note={kinds.length === 0 ? note : kinds.map(([type]) => type).join(', ')}>
      {kinds.slice(0, 1).map(([type, { schema }]) => (
        <Fields key={type} schema={schema} schemas={schemas} label={`Fields of ${title}`} />
      ))}
    </Part>
  );
}

function Part({ title, note, children }: { title: string; note?: string | undefined; children: ReactNode }) {
  return (
    <section className="min-w-0">
      <h3 className="mb-2 flex flex-wrap items-baseline gap-x-2 text-sm font-semibold">
        {title}
        {note !== undefined && <span className="font-normal text-faint">{note}</span>}
      </h3>
      {children}
    </section>
  );
}
