import { type Caller, CallerKind, requireOperator } from '#shared/rpc/caller.ts';

/** Catalog changes are for operators, and for the start of the gateway, which registers what its environment names. */
export function requireOperatorOrStart(caller: Caller): void {
  if (caller.kind === CallerKind.SERVICE && caller.service === 'bootstrap') return;
  requireOperator(caller);
}
