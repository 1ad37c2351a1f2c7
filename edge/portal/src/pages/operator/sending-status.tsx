import { Status } from '../../ui/badge.tsx';
import type { Tone } from '../../ui/notice.tsx';

type SendingStatusProps = {
  tone: Tone;
  name: string;
  /** Why the last attempt failed. */
  lastError: string | null;
};

/** The delivery status of a mail, with the reason of a failure below it rather than in a tooltip, which touch screens do not show. */
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
