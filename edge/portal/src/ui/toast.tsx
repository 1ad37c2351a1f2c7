import { Toast as Radix } from 'radix-ui';
import { createContext, type ReactNode, useCallback, useContext, useState } from 'react';
import type { ApiError } from '../api/error.ts';
import { IconButton } from './button.tsx';
import { Icon } from './icons.tsx';
import { RequestId } from './request-id.tsx';

type Toast = { id: number; tone: 'good' | 'danger'; text: ReactNode; requestId: string | null };
type ShowToast = { say: (text: ReactNode) => void; complain: (error: ApiError) => void };

const ToastContext = createContext<ShowToast>({ say: () => {}, complain: () => {} });

/** Says that something was done, or that it failed after its place on the page had gone. */
export const useToast = (): ShowToast => useContext(ToastContext);

export function ToastProvider({ children }: { children: ReactNode }) {
  const [toasts, setToasts] = useState<readonly Toast[]>([]);
  const add = useCallback((toast: Omit<Toast, 'id'>) => {
    setToasts((before) => [...before.slice(-3), { ...toast, id: (before.at(-1)?.id ?? 0) + 1 }]);
  }, []);
  const say = useCallback((text: ReactNode) => add({ tone: 'good', text, requestId: null }), [add]);
  const complain = useCallback(
    (error: ApiError) => add({ tone: 'danger', text: error.message, requestId: error.requestId }),
    [add],
  );
  const close = (id: number) => setToasts((before) => before.filter((toast) => toast.id !== id));
  return (
    <ToastContext value={{ say, complain }}>
      <Radix.Provider duration={6000} swipeDirection="right">
        {children}
        {toasts.map((toast) => (
          <Radix.Root
            key={toast.id}
            duration={toast.tone === 'danger' ? 15_000 : 5000}
            onOpenChange={(open) => !open && close(toast.id)}
            className="raised animate-appear flex items-start gap-2.5 rounded-xl bg-surface px-4 py-3 text-sm"
          >
            <Icon
              name={toast.tone === 'good' ? 'check' : 'warning'}
              className={`mt-0.5 size-4 ${toast.tone === 'good' ? 'text-good' : 'text-danger'}`}
            />
            <Radix.Description className="min-w-0 flex-1 wrap-anywhere">
              {toast.text}
              <RequestId id={toast.requestId} />
            </Radix.Description>
            <Radix.Close asChild>
              <IconButton icon="close" label="Dismiss" className="-my-1.5 -mr-2" />
            </Radix.Close>
          </Radix.Root>
        ))}
        <Radix.Viewport className="fixed right-4 bottom-4 z-80 grid w-[calc(100vw-2rem)] max-w-sm gap-2 outline-none" />
      </Radix.Provider>
    </ToastContext>
  );
}
