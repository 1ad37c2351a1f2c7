import { Component, type ReactNode } from 'react';
import { Button } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';

/** Keeps a page that failed or could not be fetched from taking the portal down. React requires a class for this. */
export class CrashGuard extends Component<{ children: ReactNode }, { failed: boolean }> {
  override state = { failed: false };

  static getDerivedStateFromError() {
    return { failed: true };
  }

  override render() {
    if (!this.state.failed) return this.props.children;
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
          Either the connection broke while it was being fetched, or the portal was updated in the meantime.
        </EmptyState>
      </div>
    );
  }
}
