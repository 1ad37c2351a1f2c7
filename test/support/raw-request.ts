import { connect } from 'node:net';
import { text } from 'node:stream/consumers';

/** Sends bytes as they are and reads until the server closes, one character per byte. */
export function rawRequest(url: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).setEncoding('latin1');
  socket.write(bytes);
  return text(socket);
}
