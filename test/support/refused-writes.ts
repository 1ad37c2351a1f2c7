import { expect } from 'vitest';
import { owner } from './gateway.ts';
import type { InferenceBench } from './inference.ts';

/** Every change is 503 with Retry-After while Postgres takes none (reliability.md, How). */
export async function expectWritesRefused({ gateway, session, key }: InferenceBench): Promise<void> {
  const chat = { model: 'sim-chat', messages: [{ role: 'user', content: 'Hi' }] };
  const writes: [method: string, path: string, token: string, body?: object][] = [
    ['POST', '/api/v1/api-keys', session, { name: 'while none is taken' }],
    ['PATCH', `/api/v1/api-keys/${key.id}`, session, { name: 'renamed' }],
    ['DELETE', `/api/v1/api-keys/${key.id}`, session],
    ['POST', '/api/v1/auth/login', '', owner],
    ['POST', '/api/v1/jobs', session, { endpoint: '/v1/chat/completions', body: chat }],
  ];
  for (const [method, path, token, body] of writes) {
    const answer = await gateway.call(method, path, token, body);
    expect([answer.status, answer.json.error.code], `${method} ${path}`).toEqual([503, 'server_is_overloaded']);
    expect(Number(answer.headers.get('retry-after')), `${method} ${path}`).toBeGreaterThan(0);
  }
}
