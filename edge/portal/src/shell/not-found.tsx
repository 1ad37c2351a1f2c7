import { ButtonLink } from '../ui/button.tsx';
import { EmptyState } from '../ui/empty-state.tsx';
import { Page } from '../ui/page.tsx';

/** Also shown for pages that the user's role may not see, without revealing that they exist. */
export function NotFound() {
  return (
    <Page title="Page not found">
      <EmptyState
        icon="search"
        title="There is nothing at this address"
        action={<ButtonLink href="/">Go to the overview</ButtonLink>}
      >
        The address may be mistyped, or the page may not be yours to see.
      </EmptyState>
    </Page>
  );
}
