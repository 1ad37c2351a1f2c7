import { type ReactNode, useEffect } from 'react';
import { useApi } from '../../api/hooks.ts';
import { navigate } from '../../router/router.ts';
import { Logo } from '../../shell/logo.tsx';

/** The frame of pages that need no session. */
export function AuthFrame({
  title,
  description,
  children,
  footer,
}: {
  title: string;
  description?: ReactNode;
  children: ReactNode;
  footer?: ReactNode;
}) {
  useEffect(() => {
    document.title = `${title} · Model Gateway`;
  }, [title]);
  return (
    <main className="grid min-h-dvh place-items-center px-4 py-10">
      <div className="w-full max-w-sm">
        <Logo className="size-10" />
        <h1 className="mt-5 text-xl font-semibold tracking-tight">{title}</h1>
        {description !== undefined && <p className="mt-1 text-base text-soft wrap-anywhere">{description}</p>}
        <div className="mt-6">{children}</div>
        {footer !== undefined && <div className="mt-6 border-t border-line pt-4 text-sm text-soft">{footer}</div>}
      </div>
    </main>
  );
}

/**
 * Leads to the sign-in page, which is told what was `done` and by whom, if that is known. A user who is signed in here is signed out: the
 * following pages would be theirs.
 */
export function useLeadToSignIn(done: 'accepted' | 'reset', email: string): () => Promise<void> {
  const api = useApi();
  return async () => {
    if (api.session().status === 'signed-in') await api.signOut().catch(api.forget);
    navigate(`/sign-in?done=${done}${email && `#email=${encodeURIComponent(email)}`}`, { replace: true });
  };
}

export const authLink = 'font-medium text-accent underline-offset-2 hover:underline';
