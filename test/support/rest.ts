import { expect } from 'vitest';

// biome-ignore lint/suspicious/noExplicitAny: tests read answers of every shape; the assertions are the types.
type Json = any;

/** Calls a gateway in another process over REST, with a bearer token unless it is empty. Anything but success fails the test. */
export const restCalls =
  (url: string) =>
  async (
    method: string,
    path: string,
    token: string,
    body?: object,
    headers: Record<string, string> = {},
  ): Promise<Json> => {
    const answer = await fetch(url + path, {
      method,
      headers: {
        ...(token !== '' && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    expect(answer.ok, `${method} ${path}: ${answer.status} ${text}`).toBe(true);
    return answer.headers.get('content-type')?.startsWith('application/json') ? JSON.parse(text) : text;
  };
