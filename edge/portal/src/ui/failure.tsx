import type { ReactNode } from 'react';
import { type ApiError, isTransient } from '../api/error.ts';
import { Button } from './button.tsx';
import { classNames } from './class-names.ts';
import { Icon } from './icons.tsx';
import { RequestId } from './request-id.tsx';
import { SkeletonRows } from './skeleton.tsx';

/** Shown instead of content that could not be loaded. */
function Failure({ error, retry }: { error: ApiError; retry: () => void }) {
  return (
    <div role="alert" className="grid justify-items-center gap-1.5 px-6 py-10 text-center">
      <Icon name="warning" className="size-5 text-danger" />
      <p className="font-medium">{titleOf(error)}</p>
      <div className="max-w-md text-sm text-soft wrap-anywhere">
        {error.message}
        <RequestId id={error.requestId} />
      </div>
      {error.status !== gone && (
        <Button size="small" icon="refresh" className="mt-2" onClick={retry}>
          Try again
        </Button>
      )}
    </div>
  );
}

/** The status of a retired model: trying again never succeeds (service.md, Errors). */
const gone = 410;

function titleOf({ status }: ApiError): string {
  if (status === 0) return 'No connection to the gateway';
  return status === gone ? 'No longer available' : 'This could not be loaded';
}

export type Loadable<Answer> = {
  data: Answer | undefined;
  error: ApiError | null;
  refetch: () => unknown;
  /** Whether `data` is still the answer to the previous query. */
  isPlaceholderData: boolean;
};
/** Whether there is an answer to show. One that is there stays in place of a transient failure or the end of the session. */
const isShown = <Answer,>({ data, error }: Loadable<Answer>): boolean =>
  data !== undefined && (error === null || isTransient(error) || error.status === 401);

/** A value for a tile whose room is taken before there is an answer: until then `…`, and a dash if it could not be loaded. */
export function valueIn<Answer>(of: Loadable<Answer>, show: (answer: Answer) => ReactNode): ReactNode {
  if (isShown(of)) return show(of.data as Answer);
  return of.error === null ? '…' : '—';
}

/** Several answers as one, which is there once all of them are. */
export function together<Answers extends Record<string, unknown>>(
  parts: {
    [Name in keyof Answers]: Loadable<Answers[Name]>;
  },
): Loadable<Answers> {
  const all = Object.values<Loadable<unknown>>(parts);
  const failed = all.find((part) => part.error !== null && !isShown(part));
  return {
    data: all.every(isShown)
      ? (Object.fromEntries(Object.entries(parts).map(([name, part]) => [name, part.data])) as Answers)
      : undefined,
    error: failed?.error ?? null,
    refetch: () => {
      for (const part of all) void part.refetch();
    },
    isPlaceholderData: false,
  };
}

type LoadedProps<Answer> = { of: Loadable<Answer>; skeleton?: ReactNode; children: (answer: Answer) => ReactNode };

/**
 * Shows an answer once there is one; until then, a skeleton or the error. An earlier answer stays in place of a transient failure or the
 * end of the session, but not of a refusal, since its subject may be gone or now belong to someone else. The answer to another query, such
 * as another range, is dimmed unless the new one arrives within an instant.
 */
export function Loaded<Answer>({ of, skeleton, children }: LoadedProps<Answer>) {
  if (isShown(of)) {
    return (
      <div
        aria-busy={of.isPlaceholderData || undefined}
        className={classNames('contents *:transition-opacity', of.isPlaceholderData && '*:opacity-50 *:delay-150')}
      >
        {children(of.data as Answer)}
      </div>
    );
  }
  if (of.error !== null) return <Failure error={of.error} retry={() => void of.refetch()} />;
  return skeleton ?? <SkeletonRows />;
}
