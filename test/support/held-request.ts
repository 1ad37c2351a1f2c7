import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { text } from 'node:stream/consumers';

type HeldRequest = { method: string; path: string; token: string; body: string; contentType?: string };

/**
 * Sends the head of a request and holds its body back; when this resolves, the edge has decided on the head. The returned function sends
 * the body.
 */
export async function heldRequest(
  url: string,
  { method, path, token, body, contentType = 'application/json' }: HeldRequest,
): Promise<() => Promise<{ status: number; code: unknown }>> {
  const held = request(url + path, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': contentType,
      'content-length': Buffer.byteLength(body),
      // The edge asks for the body when it begins to read it.
      expect: '100-continue',
    },
  });
  // A request left behind by a failed test ends with its gateway.
  held.on('error', () => {});
  held.flushHeaders();
  await once(held, 'continue');
  return async () => {
    held.end(body);
    const [response] = (await once(held, 'response')) as [IncomingMessage];
    const answer = await text(response);
    return { status: response.statusCode!, code: answer === '' ? undefined : JSON.parse(answer).error?.code };
  };
}
