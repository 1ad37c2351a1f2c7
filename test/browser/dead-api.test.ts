import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { portalDist } from '../../edge/portal/build.ts';
import { startFaultProxy } from '../support/fault-proxy.ts';
import { startTestGateway } from '../support/gateway.ts';
import { goWithin, openPage, signIn } from './support/browser.ts';
import { pagesOf } from './support/pages.ts';
import { startPortal, users } from './support/portal.ts';
import { settled } from './support/settled.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

/** Pages that ask nothing of the API when opened, or only what is already loaded. */
const quiet = new Set(['create-key', 'not-found', 'settings', 'confirm-email', 'operator-health']);

/** Pages whose answers other pages have read too. */
const sharing = new Set(['models', 'playground', 'transcribe', 'reference-operation', 'operator-plans']);

/** The answer of an edge that cannot reach its services. */
const outOfOrder = {
  status: 503,
  contentType: 'application/json',
  headers: { 'x-request-id': 'req_0123456789abcdef' },
  body: JSON.stringify({
    error: { message: 'The service is unavailable.', type: 'server_error', param: null, code: 'service_unavailable' },
  }),
};

/** Whether something happens soon. */
const happens = (event: Promise<unknown>): Promise<boolean> =>
  event.then(
    () => true,
    () => false,
  );
const soon = { timeout: 20_000 };

/** Breaks and repairs the API of a page. Its session survives, so only the page's own calls fail. */
async function breakable(page: Page): Promise<{ broken: boolean }> {
  const api = { broken: false };
  await page.route(/\/api\/|\/openapi\.json$/, (route) =>
    api.broken && !route.request().url().includes('/auth/') ? route.fulfill(outOfOrder) : route.continue(),
  );
  return api;
}

test.each(['owner', 'operator'] as const)(
  'every page of %s says that the API does not answer, with a request id, and recovers',
  async (as) => {
    const { page, troubles, close } = await openPage(browser);
    await signIn(page, portal.url, users[as], '/nothing-here');
    await page.getByRole('heading', { name: 'Page not found' }).waitFor();
    const api = await breakable(page);
    const wrong: string[] = [];
    for (const { name, path } of pagesOf(portal.world).filter((one) => one.as === as && !quiet.has(one.name))) {
      // What was read before is still shown.
      if (sharing.has(name)) {
        await page.reload();
        await page.getByRole('heading', { name: 'Page not found' }).waitFor();
      }
      api.broken = true;
      await goWithin(page, path);
      const alert = page.getByRole('main').getByRole('alert').first();
      if (!(await happens(alert.getByText('This could not be loaded').waitFor(soon)))) wrong.push(`${name}: silent`);
      else if (!(await alert.textContent())!.includes('Request req_0123456789abcdef'))
        wrong.push(`${name}: no request id`);
      api.broken = false;
      // The first page recovers on its own; the others are helped along to save time.
      const retry = page.getByRole('button', { name: 'Try again' });
      while (name !== 'overview' && (await retry.count()) > 0)
        await retry
          .first()
          .click({ timeout: 1000 })
          .catch(() => {});
      if (!(await happens(alert.waitFor({ state: 'detached', ...soon })))) wrong.push(`${name}: does not recover`);
      await settled(page);
      for (const trouble of troubles.splice(0)) wrong.push(`${name}: ${trouble}`);
      await goWithin(page, '/nothing-here');
    }
    expect(wrong).toEqual([]);
    await close();
  },
);

test('a lost network is announced above the content of the page, until it is back', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/keys');
  const table = page.getByRole('table', { name: 'API keys' });
  await table.waitFor();
  await page.context().setOffline(true);
  await page.getByText('You are offline.').waitFor();
  expect(await table.isVisible()).toBe(true);
  await page.context().setOffline(false);
  await page.getByText('You are offline.').waitFor({ state: 'detached' });
  await page.getByText('The gateway cannot be reached').waitFor({ state: 'detached' });
  await close();
});

test('what is requested without a network is refused at once, not done behind one’s back when the network returns', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/keys');
  const key = page.getByRole('row').filter({ hasText: 'First steps' });
  await key.getByRole('button', { name: 'Actions for First steps' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel("To confirm, type the key's name").fill('First steps');
  await page.context().setOffline(true);
  await dialog.getByRole('button', { name: 'Delete key' }).click();
  await dialog.getByRole('alert').getByText('The gateway cannot be reached.').waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await page.context().setOffline(false);
  await page.getByText('You are offline.').waitFor({ state: 'detached' });
  await page.getByText('The gateway cannot be reached').waitFor({ state: 'detached' });
  await page.reload();
  await key.waitFor();
  await close();
});

test('the health page says that a process which has stopped answering is not alive, and when it answers again', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/health');
  const alive = page.locator('section', { has: page.getByRole('heading', { name: 'Alive' }) });
  await alive.getByText('Yes').waitFor();
  await page.route('**/healthz', (route) => route.abort());
  await alive.getByText('No answer').waitFor();
  expect(await alive.getByText('Yes').count()).toBe(0);
  await page.unroute('**/healthz');
  await alive.getByText('Yes').waitFor();
  await close();
});

test('a change that gets no answer is given up, and is made only once when repeated in a reopened form', async () => {
  const { page, close } = await openPage(browser);
  // Half a minute, shortened.
  await page.addInitScript(`
    const real = window.setTimeout;
    window.setTimeout = (work, ms, ...given) => real(work, ms === 30_000 && window.isHurried ? 300 : ms, ...given);
  `);
  const organization = `/operator/organizations/${portal.world.people.tenantId}`;
  await signIn(page, portal.url, users.operator, organization);
  const granted: number[] = [];
  await page.route('**/credits', async (route) => {
    const response = await route.fetch();
    if (granted.push(response.status()) === 2) await route.fulfill({ response });
  });
  const grant = async () => {
    await page.getByLabel('Amount in USD').first().fill('3.21');
    await page.getByRole('button', { name: 'Grant credit' }).click();
  };
  await grant();
  await expect.poll(() => granted).toEqual([201]);
  await goWithin(page, '/operator/plans');
  await goWithin(page, organization);
  await grant();
  await page.getByText('Credit granted.', { exact: true }).waitFor();
  await goWithin(page, `${organization}?tab=transactions`);
  await page.getByText('$3.21').first().waitFor();
  expect(await page.getByRole('row').filter({ hasText: '$3.21' }).count()).toBe(1);

  await goWithin(page, organization);
  await page.evaluate('window.isHurried = true');
  await grant();
  await page.getByRole('alert').getByText('The gateway cannot be reached. Check your connection.').waitFor();
  await close();
});

test('the overview says that nothing needs attention, or that there is no key, only once it knows', async () => {
  const { page, close } = await openPage(browser);
  const answer = Promise.withResolvers<void>();
  await page.route(/\/api\/v1\/(models|api-keys)/, async (route) => {
    await answer.promise;
    await route.fulfill(outOfOrder);
  });
  await signIn(page, portal.url, users.member);
  const attention = page.locator('section').filter({ hasText: 'Needs attention' });
  const claims = page.getByText('Nothing. No key expires').or(page.getByRole('link', { name: 'Create a key' }));
  await page.getByRole('heading', { name: 'Hello, Mia' }).waitFor();
  await attention.waitFor();
  expect(await claims.count()).toBe(0);
  answer.resolve();
  await attention.getByText('This could not be loaded').waitFor();
  expect(await claims.count()).toBe(0);
  await page.unrouteAll();
  await attention.getByText('Retiring').first().waitFor();
  await page.getByRole('link', { name: 'More snippets' }).waitFor();
  await close();
});

test('a session survives refreshes that take eight seconds, are not answered or refused for a while, and an answer that breaks off', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/keys');
  await page.clock.install();
  const tooMany = { ...outOfOrder, status: 429 };
  const brokenOff = { status: 200, contentType: 'application/json', body: '{"first_na' };
  const eightSeconds = Promise.withResolvers<void>();
  let refreshes = 0;
  let profiles = 0;
  await page.route('**/api/v1/auth/refresh', async (route) => {
    refreshes += 1;
    const response = refreshes === 1 ? await route.fetch() : null;
    if (response !== null) await eightSeconds.promise.then(() => route.fulfill({ response }));
    else if (refreshes === 4) await route.fulfill(tooMany);
    // The others are never answered.
    else if (refreshes === 5) await route.continue();
  });
  const refreshed = (times: number) => expect.poll(() => refreshes).toBe(times);
  await page.goto(portal.url);
  await refreshed(1);
  await page.clock.runFor(5_000);
  await refreshed(2);
  await page.clock.runFor(3_000);
  eightSeconds.resolve();
  await page.getByRole('heading', { name: 'Hello, Mia' }).waitFor();
  await page.getByText('The gateway cannot be reached').waitFor({ state: 'detached' });

  await page.route('**/api/v1/profile', (route) => {
    profiles += 1;
    return profiles === 1 ? route.fulfill(brokenOff) : route.continue();
  });
  await page.reload();
  await refreshed(3);
  await page.clock.runFor(5_000);
  await page.getByRole('heading', { name: 'The gateway cannot be reached' }).waitFor();
  await page.clock.runFor(4_000);
  await expect.poll(() => profiles).toBe(1);
  await page.clock.runFor(4_000);
  await page.getByRole('heading', { name: 'Hello, Mia' }).waitFor();
  expect({ refreshes, profiles }).toEqual({ refreshes: 5, profiles: 2 });
  await close();
});

test('the API reference and the months of a key, which are read in ways of their own, are shown by themselves once they can be', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/nothing-here');
  await page.clock.install();
  for (const [path, asked, shown] of [
    ['/reference', /openapi\.json$/, 'List members'],
    [`/keys/${portal.world.keyId}?granularity=monthly`, /granularity=daily/, 'Recent Activity'],
  ] as const) {
    await page.route(asked, (route) => route.fulfill(outOfOrder));
    await goWithin(page, path);
    await page.getByText('This could not be loaded').waitFor();
    await page.unroute(asked);
    await page.clock.runFor(5_000);
    await page.getByText(shown, { exact: true }).waitFor({ timeout: 3_000 });
  }
  await close();
});

test('a page whose file could not be fetched is reloaded once, and says that it cannot be shown if the file fails again', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/keys');
  await page.getByRole('table', { name: 'API keys' }).waitFor();
  let failures = 1;
  await page.route('**/assets/jobs-*.js', (route) => (failures-- > 0 ? route.abort() : route.continue()));
  const shown = page.getByRole('heading', { level: 1, name: 'Jobs' });
  await page.goto(`${portal.url}/jobs`);
  await shown.waitFor();

  await page.goto(`${portal.url}/keys`);
  failures = Number.POSITIVE_INFINITY;
  await page.getByRole('link', { name: 'Jobs' }).click();
  await page.getByRole('alert').getByText('This page could not be shown').waitFor();
  failures = 0;
  await page.getByRole('button', { name: 'Reload' }).click();
  await shown.waitFor();
  await close();
});

test('a page whose files were requested from another version of the gateway is reloaded until it is complete, but not forever', async () => {
  const { page, close } = await openPage(browser);
  let missing = 'js';
  let failures = 0;
  await page.route('**/assets/index-*', (route) => {
    const isThere = !route.request().url().endsWith(missing) || failures-- <= 0;
    return isThere ? route.continue() : route.fulfill({ ...outOfOrder, status: 404 });
  });
  for (missing of ['js', 'css']) {
    failures = 2;
    await page.goto(portal.url);
    await expect.poll(() => failures).toBeLessThan(0);
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    await expect.poll(() => page.evaluate(() => sessionStorage.length)).toBe(0);
  }

  failures = Number.POSITIVE_INFINITY;
  await page.evaluate(() => sessionStorage.setItem('reloads', '9'));
  await page.clock.install();
  await page.goto(portal.url);
  const last = page.waitForEvent('load');
  await page.clock.runFor(1_000);
  await last;
  let asks = 0;
  page.on('request', (request) => {
    asks += Number(request.url().endsWith('/healthz'));
  });
  await page.clock.runFor(60_000);
  expect(asks).toBe(0);
  await close();
});

test('a page whose file a proxy could not get is reloaded only when the gateway behind it is back', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/keys');
  await page.getByRole('table', { name: 'API keys' }).waitFor();
  let isDown = true;
  const asked: string[] = [];
  await page.route('**/*', (route) => {
    if (!isDown) return route.continue();
    asked.push(route.request().isNavigationRequest() ? 'page' : new URL(route.request().url()).pathname);
    return route.fulfill({ status: 502, contentType: 'text/html', body: '<h1>502 Bad Gateway</h1>' });
  });
  await page.getByRole('link', { name: 'Jobs' }).click();
  await expect.poll(() => asked.filter((path) => path === '/healthz' || path === 'page').length).toBeGreaterThan(1);
  expect(asked).not.toContain('page');
  isDown = false;
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  await close();
});

test('a gateway that has gone is waited for, at the start and later on, and found again', async () => {
  // A portal of its own, so that the test can be retried.
  const { url, gateway, [Symbol.asyncDispose]: dispose } = await startPortal();
  const { page, close } = await openPage(browser);
  try {
    await signIn(page, url, users.member, '/keys');
    await page.getByRole('table', { name: 'API keys' }).waitFor();
    const starting = await page.context().newPage();
    await starting.goto(url);
    await starting.getByRole('heading', { name: 'Hello, Mia' }).waitFor();
    await starting.route('**/api/**', (route) => route.abort());
    await starting.reload();
    await starting.getByRole('heading', { name: 'The gateway cannot be reached' }).waitFor();
    await starting.unroute('**/api/**');

    await gateway.gateway.close();
    await page.getByLabel('Type', { exact: true }).selectOption('inference');
    await page.getByText('The gateway cannot be reached. Trying again').waitFor();
    await page.getByRole('link', { name: 'Models' }).click();
    await using _again = await startTestGateway({
      databaseUrl: gateway.env.databaseUrl!,
      portal: Promise.resolve(portalDist),
      env: { PORT: new URL(url).port, BOOTSTRAP_EMAIL: users.operator.email },
    });
    await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
    await page.getByText('The gateway cannot be reached. Trying again').waitFor({ state: 'detached' });
    await starting
      .getByRole('heading', { name: 'Hello, Mia' })
      .waitFor()
      .catch(async (cause) => {
        throw new Error(`${starting.url()} shows: ${await starting.locator('body').innerText()}`, { cause });
      });
  } finally {
    await close();
    await dispose();
  }
});

test('a download that breaks off half-way says so, with its request id, and saves nothing', async () => {
  await using proxy = await startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(portal.url).port) } });
  const { page, close } = await openPage(browser);
  await signIn(page, `http://127.0.0.1:${proxy.port}`, users.owner, '/usage?scope=tenant');
  await settled(page);
  let isSaved = false;
  page.on('download', () => {
    isSaved = true;
  });
  const begun = page.waitForResponse(/\/usage\/export/);
  await proxy.set({ kind: 'cut', afterBytes: 4_000, direction: 'to-client' });
  await page.getByRole('button', { name: 'Export requests' }).click();
  const requestId = (await begun).headers()['x-request-id']!;
  await page.getByText(`The download broke off. Nothing was saved.Request ${requestId}`).first().waitFor();
  expect(isSaved).toBe(false);
  await close();
});
