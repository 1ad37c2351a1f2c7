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
