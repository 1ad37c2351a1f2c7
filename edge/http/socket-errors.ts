import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { type GatewayError, invalidRequest } from '#shared/errors.ts';
import { errorBody } from '../openai/errors.ts';
import { endpointMethods, newRequestId, unknownMethod } from './headers.ts';
import { requestOn } from './slow-clients.ts';

/** What the HTTP parser refuses never becomes a request; it is answered on the socket, in the documented shape. */
export function answerUnparsable(error: NodeJS.ErrnoException & { rawPacket?: unknown }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const isMethod = error.code === 'HPE_INVALID_METHOD';
  const method = isMethod ? requestLine.exec(headOf(error.rawPacket))?.[1] : undefined;
  const tooLarge = error.code === 'HPE_HEADER_OVERFLOW';
  const timedOut = error.code === 'ERR_HTTP_REQUEST_TIMEOUT';
  // If a request came before it in the same packet, the packet begins with the method of that request.
  if (method !== undefined && !endpointMethods.has(method)) refuseMethod(method, socket);
  else if (tooLarge)
    refuseOnSocket(socket, '431 Request Header Fields Too Large', 'The request headers are too large.');
  else if (timedOut) refuseUnlessRead(socket);
  else if (isMethod) refuseOnSocket(socket, '400 Bad Request', notRequest);
  else refuseOnSocket(socket, '400 Bad Request', 'The request is not valid HTTP.');
}

/**
 * When a process stood still, its timers come before what clients sent meanwhile is read: a request among that is not late. Node has
 * forgotten when it began, so it is `cutOffSlowClients` alone that ends a body which then trickles.
 */
function refuseUnlessRead(socket: Socket): void {
  const [request, response] = [requestOn(socket), responseOn(socket)];
  setImmediate(() => {
    // An upgrade shows only as its response.
    const isRead = requestOn(socket) !== request || (response === null && responseOn(socket) !== null);
    if (!isRead) refuseOnSocket(socket, '400 Bad Request', 'The request took too long to arrive.');
  });
}

/** A client that counts its body in characters sends more bytes than it announced; the rest is taken for the next request. */
const notRequest = 'The request is not valid HTTP, or the body before it is longer than its Content-Length.';

/** A request in which only the method is unknown to the parser; anything may be sent to a port. */
const requestLine = /^([A-Za-z-]{1,32}) \S+ HTTP\/1\.[01]\r?\n/;
const headOf = (packet: unknown): string => (Buffer.isBuffer(packet) ? packet.toString('latin1', 0, 16 * 1024) : '');

const refuseMethod = (method: string, socket: Duplex): void =>
  answerOnSocket(socket, '501 Not Implemented', unknownMethod(method));

/** Answers CONNECT, for which Node makes no request; it leaves the socket to the listener. */
export function refuseConnect(_request: IncomingMessage, socket: Duplex): void {
  socket.on('error', () => socket.destroy()).once('finish', () => socket.destroy());
  refuseMethod('CONNECT', socket);
}

/** Refuses on the socket where there is no response object any more, and closes the connection. */
export const refuseOnSocket = (
  socket: Duplex,
  status: string,
  message: string,
  headers?: Readonly<Record<string, string>>,
): void => answerOnSocket(socket, status, invalidRequest(undefined, message), headers);

/** The response that a connection carries at the moment. Node notes it there, and looks at it for the same purpose as we. */
export const responseOn = (socket: Duplex & { _httpMessage?: ServerResponse | null }): ServerResponse | null =>
  socket._httpMessage ?? null;

/**
 * To HTTP/1.0 the end of the connection is the end of an answer that does not say its length (RFC 9112 section 6.3): one that is cut off would
 * look whole, so its connection is reset instead of closed. Not after its client has ended its side: Node ends the other then, and what is
 * ending cannot be reset.
 */
export function resetWhatIsCutOff(socket: Socket): void {
  const { destroy } = socket;
  socket.destroy = (error) => {
    socket.destroy = destroy;
    const response = responseOn(socket);
    const isCutOff = socket.writable && response?.headersSent && !response.writableFinished;
    const looksWhole = isCutOff && response.req.httpVersion === '1.0' && !response.hasHeader('content-length');
    return looksWhole ? socket.resetAndDestroy() : socket.destroy(error);
  };
}

/** Where an earlier request is being answered, the refusal would become part of that answer, so the connection is only closed. */
function answerOnSocket(
  socket: Duplex,
  status: string,
  error: GatewayError,
  more: Readonly<Record<string, string>> = {},
): void {
  if (responseOn(socket)?.headersSent) {
    socket.destroy();
    return;
  }
  const { headers, body } = refusalOf(error);
  const lines = Object.entries({ date: new Date().toUTCString(), ...headers, ...more }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  socket.end(`HTTP/1.1 ${status}\r\n${lines.join('')}\r\n${body}`);
}

/** Answers a request with an expectation that nothing here meets: Node asks before routing (RFC 9110 section 10.1.1). */
export function refuseExpectation(_request: IncomingMessage, response: ServerResponse): void {
  const { headers, body } = refusalOf(invalidRequest(undefined, 'The only supported expectation is `100-continue`.'));
  response.writeHead(417, headers).end(body);
}

function refusalOf(error: GatewayError) {
  const body = JSON.stringify(errorBody(error));
  const headers = {
    'content-type': 'application/json; charset=utf-8',
    'content-length': Buffer.byteLength(body),
    'x-request-id': newRequestId(),
    connection: 'close',
  };
  return { headers, body };
}
