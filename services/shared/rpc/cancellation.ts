import type { HandlerContext } from '@connectrpc/connect';
import { LocalContext } from './local-context.ts';

/** Notified when a call is given up: an object, so that no closure is made per call. */
export type CancelListener = { handleEvent(): void };

/** Whether somebody still waits for an answer; an AbortSignal is one. */
export type Cancellation = {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: CancelListener): void;
  removeEventListener(type: 'abort', listener: CancelListener): void;
};

/** For handlers that are called thousands of times a second: within a process `context.signal` would cost more than the call. */
export const cancellationOf = (context: HandlerContext): Cancellation =>
  context instanceof LocalContext ? context : context.signal;
