import { Dialog as Radix } from 'radix-ui';
import type { ReactNode } from 'react';
import { IconButton } from './button.tsx';
import { classNames } from './class-names.ts';
import { useCloseOnBack } from './close-on-back.ts';
import { useReturnFocus } from './return-focus.ts';

type DialogProps = {
  open: boolean;
  onClose: () => void;
  /** A name in it that people chose is a `bdi`: in whatever direction it is written, it leaves the words around it in place. */
  title: ReactNode;
  description?: ReactNode;
  children: ReactNode;
  wide?: boolean;
  /** A click outside does not close it: for secrets and long forms. */
  keep?: boolean;
  /** It shows something that cannot be shown again: Escape and Back do not close it either. */
  secret?: boolean;
};

/**
 * A modal dialog. Radix's Overlay is left out on purpose: it locks scrolling with a style element, which the Content-Security-Policy
 * forbids; styles.css locks it by `data-scroll-lock` instead.
 */
export function Dialog({
  open,
  onClose,
  title,
  description,
  children,
  wide = false,
  keep = false,
  secret = false,
}: DialogProps) {
  const returnFocus = useReturnFocus(open);
  useCloseOnBack(open, () => !secret && onClose());
  return (
    <Radix.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <div data-scroll-lock className="fixed inset-0 z-40 bg-scrim" />
        <Radix.Content
          {...(description === undefined ? { 'aria-describedby': undefined } : {})}
          onCloseAutoFocus={returnFocus}
          onInteractOutside={(event) => keep && event.preventDefault()}
          onEscapeKeyDown={(event) => secret && event.preventDefault()}
          className={classNames(
            'raised animate-appear fixed inset-x-0 bottom-0 z-50 max-h-[92dvh] overflow-y-auto scroll-pt-5 scroll-pb-20 rounded-t-2xl bg-surface p-5',
            'sm:inset-x-auto sm:top-[8dvh] sm:bottom-auto sm:left-1/2 sm:max-h-[84dvh] sm:max-w-[calc(100vw-2rem)] sm:-translate-x-1/2 sm:rounded-2xl sm:p-6',
            wide ? 'sm:w-[44rem]' : 'sm:w-[30rem]',
          )}
        >
          <div className="mb-4 pr-11">
            <Radix.Title className="text-lg font-semibold wrap-anywhere">{title}</Radix.Title>
            {description !== undefined && (
              <Radix.Description className="mt-1 text-sm text-soft wrap-anywhere">{description}</Radix.Description>
            )}
          </div>
          {children}
          {/* The last in order, so that the dialog opens with the focus on its first field or button. */}
          <IconButton
            icon="close"
            label="Close"
            onClick={onClose}
            className="absolute top-4 right-4 sm:top-5 sm:right-5"
          />
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/** The buttons below a dialog's content. They stay in view while a long dialog scrolls. */
export function DialogActions({ children }: { children: ReactNode }) {
  return (
    <div
      className={classNames(
        'sticky -bottom-5 -mx-5 -mb-5 flex flex-wrap justify-end gap-2 border-t border-line bg-surface px-5 pt-4 pb-5',
        'sm:-bottom-6 sm:-mx-6 sm:-mb-6 sm:px-6 sm:pb-6',
      )}
    >
      {children}
    </div>
  );
}
