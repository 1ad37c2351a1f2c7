import { Component, type ContextType, type ReactNode } from 'react';
import { KeptStatesContext } from '../api/kept-state.ts';
import { NotFetched } from '../router/fetched.ts';
import { Button } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';

type CrashGuardProps = {
  children: ReactNode;
  /** What is shown of content that failed, where that can be anything. */
  instead?: ReactNode;
};

/**
 * Shows a message, or what is given `instead`, in place of content that failed or could not be fetched, so that the rest stays. React
 * requires a class for this.
 */
export class CrashGuard extends Component<CrashGuardProps, { error: unknown }> {
  static override contextType = KeptStatesContext;
  declare context: ContextType<typeof KeptStatesContext>;
  override state = { error: null };

  static getDerivedStateFromError(error: unknown) {
    return { error: error ?? new Error('Something that is not an error was thrown') };
  }

  override componentDidCatch(error: unknown) {
    // Otherwise a page that cannot show what is in it could not even when it is loaded anew.
    if (!(error instanceof NotFetched) && this.props.instead === undefined) this.context?.distrust();
  }

  override render() {
    const { error } = this.state;
    if (error === null) return this.props.children;
    if (this.props.instead !== undefined) return this.props.instead;
    return (
      <div role="alert" className="mx-auto max-w-6xl pt-9">
        <EmptyState
          icon="warning"
          title="This page could not be shown"
          action={
            <Button icon="refresh" onClick={() => window.location.reload()}>
              Reload
            </Button>
          }
        >
          {(error as unknown) instanceof NotFetched
            ? 'Either the connection broke while it was being fetched, or the portal was updated in the meantime.'
            : 'An error in the portal stopped it. If reloading does not help, tell whoever runs this gateway.'}
        </EmptyState>
      </div>
    );
  }
}
