import type { IncomingMessage } from 'node:http';
import { bearerToken } from '../guards/bearer.ts';

const keyProtocol = 'openai-insecure-api-key.';

/** The subprotocols that a client offers (RFC 6455 section 4.1). */
const offeredProtocols = (message: IncomingMessage): string[] =>
  (message.headers['sec-websocket-protocol'] ?? '')
    .split(',')
    .map((protocol) => protocol.trim())
    .filter((protocol) => protocol !== '');

/**
 * The token of a realtime client: in the Authorization header or, since browsers cannot set headers, among the subprotocols
 * (openai-contract.md section 5). With both, the header counts; a subprotocol is never echoed or logged.
 */
export function realtimeToken(message: IncomingMessage): string {
  if (message.headers.authorization !== undefined) return bearerToken(message);
  const keys = offeredProtocols(message).filter((protocol) => protocol.startsWith(keyProtocol));
  // Two would let a proxy in front check the other one.
  return keys.length === 1 ? keys[0]!.slice(keyProtocol.length) : bearerToken(message);
}

/** The subprotocol to choose: `realtime` when it is offered, and never one that carries a key. */
export const chosenProtocol = (offered: ReadonlySet<string>): string | false =>
  offered.has('realtime') ? 'realtime' : false;
