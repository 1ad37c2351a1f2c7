import { afterEach, expect, test, vi } from 'vitest';
import { createApi } from './client.ts';

afterEach(() => {
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

test('a token that ended while the computer slept is refreshed before it is used, though the clock of performance.now slept too', async () => {
  vi.stubGlobal('BroadcastChannel', EventTarget);
  let refreshes = 0;
  vi.stubGlobal('fetch', async () => {
    refreshes += 1;
    const claims = btoa(JSON.stringify({ sub: 'somebody', refreshes }));
    return Response.json({ access_token: `h.${claims}.s`, expires_in: 1800 });
  });
  const api = createApi();
  await api.start();
  const first = await api.token();
  expect([await api.token(), refreshes]).toEqual([first, 1]);
  const awokenMs = Date.now() + 3_600_000;
  vi.spyOn(Date, 'now').mockReturnValue(awokenMs);
  expect(await api.token()).not.toBe(first);
  await api.token();
  expect(refreshes).toBe(2);
});

test('calls that find their token expired at once are all answered after a single refresh', async () => {
  vi.stubGlobal('BroadcastChannel', EventTarget);
  let refreshes = 0;
  const tokenOf = (refresh: number) => `h.${btoa(JSON.stringify({ sub: 'somebody', refresh }))}.s`;
  vi.stubGlobal('fetch', async (url: string, { headers }: { headers: { authorization?: string } }) => {
    if (url.endsWith('/auth/refresh')) {
      refreshes += 1;
      return Response.json({ access_token: tokenOf(refreshes), expires_in: 1800 });
    }
    const isExpired = headers.authorization === `Bearer ${tokenOf(1)}`;
    return isExpired ? new Response(null, { status: 401 }) : Response.json(headers.authorization);
  });
  const api = createApi();
  await api.start();
  const answers = await Promise.all(['/api/v1/models', '/api/v1/jobs'].map((path) => api.request(path)));
  expect([answers, refreshes]).toEqual([Array(2).fill(`Bearer ${tokenOf(2)}`), 2]);
});

test('an answer that has begun in time may take longer than that to arrive; one that has not is given up', async () => {
  vi.stubGlobal('BroadcastChannel', EventTarget);
  const timeoutMs = 10;
  vi.stubGlobal('fetch', (url: string, { signal }: { signal: AbortSignal }) => {
    const aborted = new Promise<never>((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)));
    if (url.endsWith('/never')) return aborted;
    const late = new Promise((arrive) => setTimeout(arrive, 3 * timeoutMs));
    return Promise.resolve({
      ok: true,
      headers: new Headers(),
      json: () => Promise.race([aborted, late.then(() => 'whole')]),
    });
  });
  const api = createApi();
  expect(await api.request('/api/v1/jobs/large', { timeoutMs })).toBe('whole');
  await expect(api.request('/api/v1/jobs/never', { timeoutMs })).rejects.toThrow('cannot be reached');
});
