import { useEffect } from 'react';
import { Button } from '../ui/button.tsx';
import { Logo } from './logo.tsx';

const retryMs = 4000;

/** Shown until it is known who is signed in, and instead of the portal if the gateway does not answer. */
export function Splash({ failed, retry }: { failed: boolean; retry: () => void }) {
  useEffect(() => {
    if (!failed) return;
    const timer = window.setInterval(retry, retryMs);
    return () => window.clearInterval(timer);
  }, [failed, retry]);
  return (
    <main className="grid min-h-dvh place-items-center p-6 text-center">
      <div className="grid justify-items-center gap-3">
        <Logo className={failed ? 'size-9' : 'size-9 animate-pulse-soft'} />
        {failed && (
          <div role="alert" className="grid justify-items-center gap-2">
            <h1 className="font-semibold">The gateway cannot be reached</h1>
            <p className="text-sm text-soft">Trying again every few seconds.</p>
            <Button icon="refresh" onClick={retry}>
              Try now
            </Button>
          </div>
        )}
        {!failed && <p className="sr-only">Loading</p>}
      </div>
    </main>
  );
}
