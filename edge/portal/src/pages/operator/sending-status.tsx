import { Status } from '../../ui/badge.tsx';

type SendingStatusProps = {
  tone: Parameters<typeof Status>[0]['tone'];
  name: string;
  /** Why the last try failed. */
  lastError: string | null;
};

/** How the sending of a mail stands, with why it failed below: a touch screen shows no hints. */
export function SendingStatus({ tone, name, lastError }: SendingStatusProps) {
  return (
    <>
      <Status tone={tone}>{name}</Status>
      {lastError !== null && (
        <span className="mt-1 line-clamp-2 max-w-64 text-xs text-danger wrap-anywhere">{lastError}</span>
      )}
    </>
  );
}
