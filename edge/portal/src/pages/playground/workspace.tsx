import type { ReactNode } from 'react';
import { classNames } from '../../ui/class-names.ts';

type WorkspaceProps = {
  /** What has come of it, which scrolls by itself. */
  children: ReactNode;
  /** What is sent next. */
  composer: ReactNode;
  settings: ReactNode;
};

/** What a model is given and what it answers, down to the end of the window, with the message always in sight. */
export function Workspace({ children, composer, settings }: WorkspaceProps) {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] items-start gap-5 lg:grid-cols-[minmax(0,1fr)_17rem]">
      <div
        className={classNames(
          'grid min-w-0 grid-cols-[minmax(0,1fr)] gap-3 rounded-xl border border-line bg-surface',
          'lg:h-[calc(100dvh-14.5rem)] lg:min-h-96 lg:grid-rows-[minmax(0,1fr)_auto]',
        )}
      >
        {children}
        <div className="grid grid-cols-[minmax(0,1fr)] gap-3 border-t border-line p-3">{composer}</div>
      </div>
      <div className="grid gap-4 rounded-xl border border-line bg-surface p-4">{settings}</div>
    </div>
  );
}

/** The place for answers in a workspace, in its middle while there are none. */
export const answersClass = (isEmpty: boolean): string =>
  classNames(
    'grid min-h-64 grid-cols-[minmax(0,1fr)] gap-4 overflow-y-auto p-4 max-lg:max-h-[60dvh] sm:p-5 lg:min-h-0',
    isEmpty ? 'content-center-safe' : 'content-start',
  );
