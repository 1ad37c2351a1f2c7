import { randomUUID } from 'node:crypto';
import type { Locator } from 'playwright-core';
import { expect, test } from 'vitest';
import { goWithin, launchBrowser, openPage, signIn } from './support/browser.ts';
import { pagesOf } from './support/pages.ts';
import { users } from './support/portal.ts';
import { settled } from './support/settled.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';
import { ok } from './support/world/people.ts';

sharePortal();

test('a long name takes no room from the badge next to it, and one that begins with an emoji is not cut in half', async () => {
  const { page, close } = await openPage(browser);
  await page.route('**/api/v1/profile', async (route) => {
    const answer = await route.fetch();
    const profile = await answer.json();
    profile.organization.name = 'International Robotics and Automation of the North';
    profile.first_name = '🦊 Ada';
    await route.fulfill({ response: answer, json: profile });
  });
  await signIn(page, portal.url, users.owner, '/keys');
  await page.getByText('International Robotics').waitFor();
  const mark = page.getByRole('link', { name: 'International Robotics' }).locator('svg');
  expect((await mark.boundingBox())!.width).toBe(28);
  await page.getByText('🦊', { exact: true }).waitFor({ timeout: 5_000 });
  await close();
});

test('a name that is too long is cut at its end, which is on the left for one written from right to left', async () => {
  const { page, close } = await openPage(browser);
  const name = 'מפתח הייצור של מחסן האוטומציה הראשי בתל אביב לשנת 2026';
  await page.route('**/api/v1/admin/keys?**', async (route) => {
    const answer = await route.fetch();
    const list = await answer.json();
    list.data[0].name = name;
    await route.fulfill({ response: answer, json: list });
  });
  await signIn(page, portal.url, users.operator, '/operator/keys');
  await page.getByText(name).waitFor();
  const firstLetterIsShown = `(() => {
    const shown = document.querySelector('main [title="${name}"]');
    const letter = document.createRange();
    letter.setStart(shown.firstChild, 0);
    letter.setEnd(shown.firstChild, 1);
    const box = shown.getBoundingClientRect();
    const { left, right } = letter.getBoundingClientRect();
    return left >= box.left && right <= box.right;
  })()`;
  expect(await page.evaluate(firstLetterIsShown)).toBe(true);
  await close();
});

test("an event's number stays on one line, however long the name beside it is", async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 1280, height: 900 } });
  await page.route('**/api/v1/audit-events?**', async (route) => {
    const answer = await route.fetch();
    const list = await answer.json();
    for (const [index, event] of list.data.entries()) {
      event.sequence = 104 - index;
      event.changes = { before: null, after: { name: 'W'.repeat(120), key_type: 'inference', scopes: [] } };
    }
    await route.fulfill({ response: answer, json: list });
  });
  await signIn(page, portal.url, users.owner, '/audit');
  const number = page.getByText('104', { exact: true });
  await number.waitFor();
  expect((await number.boundingBox())!.height).toBeLessThan(24);
  await close();
});

test('the name of a key written from right to left has its last sign on the left, in its title, in that of a dialog and in the fields that change it or confirm its deletion', async () => {
  const { page, close } = await openPage(browser);
  const name = 'מפתח ייצור!';
  await page.route('**/api/v1/api-keys?**', async (route) => {
    const answer = await route.fetch();
    const list = await answer.json();
    for (const key of list.data) key.name = name;
    await route.fulfill({ response: answer, json: list });
  });
  await page.route(`**/api/v1/api-keys/${portal.world.keyId}`, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), name } });
  });
  await signIn(page, portal.url, users.owner, `/keys/${portal.world.keyId}`);
  const title = page.getByRole('heading', { level: 1, name });
  await title.waitFor();
  const endsOf = (heading: Locator) =>
    heading.evaluate((shown, sought) => {
      const text = [...shown.childNodes]
        .flatMap((node) => [node, ...node.childNodes])
        .find((node) => node.nodeType === 3 && node.textContent!.includes(sought))!;
      const start = text.textContent!.indexOf(sought);
      return [start, start + sought.length - 1].map((at) => {
        const sign = shown.ownerDocument.createRange();
        sign.setStart(text, at);
        sign.setEnd(text, at + 1);
        return sign.getBoundingClientRect().left;
      });
    }, name);
  const [first, last] = await endsOf(title);
  expect(last).toBeLessThan(first!);
  await page.getByRole('button', { name: 'Edit' }).click();
  // Beside words of another direction, too.
  const [firstInTitle, lastInTitle] = await endsOf(page.getByRole('heading', { level: 2, name: `Edit ${name}` }));
  expect(lastInTitle).toBeLessThan(firstInTitle!);
  // What is in a field cannot be measured.
  const field = page.getByRole('dialog').getByLabel('Name');
  expect(await field.evaluate((input) => input.ownerDocument.defaultView!.getComputedStyle(input).unicodeBidi)).toBe(
    'plaintext',
  );
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Delete' }).click();
  // As placeholder, since the field itself is empty.
  const typed = page.getByRole('dialog').getByPlaceholder(name);
  expect(
    await typed.evaluate(
      (input) => input.ownerDocument.defaultView!.getComputedStyle(input, '::placeholder').unicodeBidi,
    ),
  ).toBe('plaintext');
  await close();
});

test('on a phone the two days of a filter are next to each other, each with its time zone', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await signIn(page, portal.url, users.owner, '/billing?tab=invoices');
  await page.getByLabel('To (UTC)').waitFor();
  const isBesideItsZone = () =>
    page.evaluate(`(() => {
      const input = document.querySelector('[aria-label="To (UTC)"]');
      const zone = document.createRange();
      zone.selectNode(input.nextSibling);
      return Math.abs(zone.getBoundingClientRect().top - input.getBoundingClientRect().top) < 36;
    })()`);
  const top = async (label: string) => (await page.getByLabel(label).boundingBox())!.y;
  expect([await isBesideItsZone(), await top('From (UTC)')]).toEqual([true, await top('To (UTC)')]);
  await page.setViewportSize({ width: 320, height: 700 });
  expect(await isBesideItsZone()).toBe(true);
  await close();
});

test('on a touch screen the text in fields is large enough that iPhones do not zoom in, and everything fits', async () => {
  const { page, close } = await openPage(browser, {
    viewport: { width: 320, height: 640 },
    hasTouch: true,
    isMobile: true,
  });
  await signIn(page, portal.url, users.owner);
  const sizes = `[...document.querySelectorAll('input:not([type=checkbox]), select, textarea')]
    .map((field) => Number.parseFloat(getComputedStyle(field).fontSize))`;
  for (const path of ['/keys', '/keys?create=1', '/usage', '/billing?tab=transactions', '/playground', '/settings']) {
    await goWithin(page, path);
    await settled(page);
    const shown = await page.evaluate<number[]>(sizes);
    expect([path, shown.length > 0, shown.filter((size) => size < 16)]).toEqual([path, true, []]);
    expect([path, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([path, 320]);
  }
  await close();
});

test('on phones no text of a list or of facts runs under a button or out of its card', async () => {
  const { page, close } = await openPage(browser);
  await page.route('**/api/v1/invitations?**', async (route) => {
    const answer = await route.fetch();
    const list = await answer.json();
    for (const invitation of list.data) invitation.email = `with.a.long.name.of.two.${invitation.email}`;
    await route.fulfill({ response: answer, json: list });
  });
  const invoices = `/operator/organizations/${portal.world.people.tenantId}?tab=invoices`;
  for (const [as, paths] of [
    ['owner', ['/organization', '/organization?tab=invitations', '/settings']],
    ['operator', ['/operator/organizations', '/operator/audit', '/operator/mail', invoices]],
  ] as const) {
    await signIn(page, portal.url, users[as]);
    for (const path of paths) {
      await goWithin(page, path);
      for (const width of [390, 320]) {
        await page.setViewportSize({ width, height: 844 });
        await settled(page);
        const shown = await page.locator('main').locator('dd, tbody tr').count();
        expect([path, width, shown > 0, await page.evaluate(textsCovered)]).toEqual([path, width, true, []]);
      }
    }
  }
  await close();
});

test('every list shows all its columns on a laptop, in a slightly smaller window, and on a tablet either way up', async () => {
  const { page, close } = await openPage(browser);
  const lists = ['keys', 'audit', 'jobs', 'mail', 'coupons', 'models', 'organizations'].map(
    (name) => `/operator/${name}`,
  );
  // Events with long names, wherever in the list other tests have put them.
  lists.push('/operator/audit?type=price_set', '/operator/audit?type=model_retirement_announced');
  for (const [as, paths] of [
    ['operator', lists],
    ['owner', ['/keys', '/audit', '/usage?by=request', '/organization', '/billing?tab=invoices']],
  ] as const) {
    await signIn(page, portal.url, users[as]);
    for (const path of paths) {
      await goWithin(page, path);
      for (const width of [1280, 1279, 1024, 768]) {
        await page.setViewportSize({ width, height: 800 });
        await settled(page);
        const areCut = `[...document.querySelectorAll('table')].map(({ parentElement: box }) => box.scrollWidth > box.clientWidth)`;
        expect([path, width, new Set(await page.evaluate<boolean[]>(areCut))]).toEqual([path, width, new Set([false])]);
      }
    }
  }
  await close();
});

test('invitations of long addresses, sent eleven minutes ago, show all their columns in a window of any width', async () => {
  const { page, close } = await openPage(browser);
  await page.route('**/api/v1/invitations?**', async (route) => {
    const answer = await route.fetch();
    const list = await answer.json();
    for (const invitation of list.data) {
      invitation.email = `with.a.long.name.of.two.${invitation.email}`;
      invitation.created_at = new Date(Date.now() - 11.5 * 60_000).toISOString();
    }
    await route.fulfill({ response: answer, json: list });
  });
  await signIn(page, portal.url, users.owner, '/organization?tab=invitations');
  await page.getByText('11 minutes ago').first().waitFor();
  for (const width of [1280, 1180, 1024, 768]) {
    await page.setViewportSize({ width, height: 800 });
    const isCut = `[...document.querySelectorAll('table')].some(({ parentElement: box }) => box.scrollWidth > box.clientWidth)`;
    expect([width, await page.evaluate(isCut)]).toEqual([width, false]);
  }
  await close();
});

test('on the narrowest phone fields side by side are in line, and no label is wider than its field', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 320, height: 700 } });
  await signIn(page, portal.url, users.operator);
  const { model, people } = portal.world;
  const modelPage = `/operator/models/${encodeURIComponent(model)}`;
  for (const [path, button] of [
    ['/operator/coupons', 'Create coupon'],
    ['/operator/plans', 'Create plan'],
    [modelPage, 'Set price'],
    [modelPage, 'Add deployment'],
    [`/operator/organizations/${people.tenantId}?tab=commitments`, null],
  ] as const) {
    await goWithin(page, path);
    await settled(page);
    if (button !== null) await page.getByRole('button', { name: button }).click();
    expect([path, button, await page.evaluate(fieldsOutOfLine)]).toEqual([path, button, []]);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }
  await close();
});

/** The labels of fields that begin higher or lower than one beside them, or are narrower than their label. */
const fieldsOutOfLine = `[...document.querySelectorAll('label[for]')].filter((label, _, all) => {
  const box = (one) => document.getElementById(one.htmlFor).getBoundingClientRect();
  const own = box(label);
  const isBeside = ({ top, bottom }) => top < own.bottom && bottom > own.top;
  return label.scrollWidth > label.clientWidth || all.map(box).some((other) => isBeside(other) && other.top !== own.top);
}).map(({ textContent }) => textContent)`;

test.each(['owner', 'operator'] as const)(
  'on a phone whose user has set text of twice the size, no page of an %s is wider than the screen, and no list than its card',
  async (as) => {
    const large = await launchBrowser({ fontPx: 32 });
    const { page, close } = await openPage(large, {
      viewport: { width: 390, height: 844 },
      hasTouch: true,
      isMobile: true,
    });
    await signIn(page, portal.url, users[as]);
    expect(await page.evaluate('getComputedStyle(document.documentElement).fontSize')).toBe('32px');
    for (const { name, path } of pagesOf(portal.world).filter((one) => one.as === as)) {
      await goWithin(page, path);
      await settled(page);
      expect([name, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([name, 390]);
      const cut = await page
        .locator('.overflow-x-auto:has(table)')
        .evaluateAll((boxes) => boxes.map((box) => box.scrollWidth - box.clientWidth).filter((px) => px > 0));
      expect([name, cut]).toEqual([name, []]);
    }
    await close();
    await large.close();
  },
);

test('on the narrowest phone a key’s cap of a billion is not wider than the screen', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 320, height: 800 } });
  const { keyId } = portal.world;
  await page.route(/api-keys/, async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    for (const key of json.data ?? [json]) key.spend_cap_usd = 1_000_000_000;
    await route.fulfill({ response: answer, json });
  });
  await signIn(page, portal.url, users.owner);
  for (const path of ['/keys', `/keys/${keyId}`]) {
    await goWithin(page, path);
    await page
      .getByText(/^\$1,000,000,000\.00 a day$/)
      .first()
      .waitFor();
    const beyond = `[document.documentElement, ...document.querySelectorAll('.overflow-x-auto')]
      .filter((box) => box.scrollWidth > box.clientWidth).length`;
    expect([path, await page.evaluate(beyond)]).toEqual([path, 0]);
  }
  await close();
});

test('on a laptop at 200% a dialog with a long form has both its edges on the screen', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 640, height: 450 }, deviceScaleFactor: 2 });
  await signIn(page, portal.url, users.owner, '/keys?create=1');
  const { x, width } = (await page.getByRole('dialog').boundingBox())!;
  expect([x >= 0, x + width <= 640]).toEqual([true, true]);
  await close();
});

test('a request that succeeded takes one line of its list, beside any that failed, and no word of a failure is broken', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 1440, height: 900 } });
  await signIn(page, portal.url, users.owner, '/usage?by=request&scope=tenant');
  const rows = page.getByRole('table', { name: 'Requests' }).locator('tbody tr');
  await rows.first().waitFor();
  await settled(page);
  const succeeded = await rows.filter({ hasText: 'Success' }).evaluateAll((all) => all.map((row) => row.clientHeight));
  expect(succeeded.length).toBeGreaterThan(5);
  expect(Math.max(...succeeded)).toBeLessThan(50);
  const failures = rows.locator('td[data-label="Status"]', { hasText: '_' });
  expect(await failures.count()).toBeGreaterThan(0);
  for (const text of await failures.allInnerTexts())
    expect(
      text
        .split('\n')
        .slice(0, -1)
        .every((line) => /[_/]$/.test(line)),
    ).toBe(true);
  await close();
});

test('how long ago something was stays on one line in every table of a laptop', async () => {
  const { page, close } = await openPage(browser);
  const elevenMinutesAgo = new Date(Date.now() - 11.5 * 60_000).toISOString();
  await page.route('**/api/v1/admin/**', async (route) => {
    const answer = await route.fetch();
    const times = /"(created_at|last_used_at|last_login_at)":"[^"]+"/g;
    const body = (await answer.text()).replace(times, `"$1":"${elevenMinutesAgo}"`);
    await route.fulfill({ response: answer, body });
  });
  await signIn(page, portal.url, users.operator);
  for (const path of [
    '/operator/keys',
    '/operator/jobs',
    `/operator/organizations/${portal.world.people.tenantId}?tab=members`,
  ]) {
    await goWithin(page, path);
    const times = page.getByRole('main').locator('td time', { hasText: '11 minutes ago' });
    await times.first().waitFor();
    await settled(page);
    const lines = await times.evaluateAll((all) => all.map((time) => time.getClientRects().length));
    expect([path, new Set(lines)]).toEqual([path, new Set([1])]);
    const isCut = `[...document.querySelectorAll('table')].some(({ parentElement: box }) => box.scrollWidth > box.clientWidth)`;
    expect([path, await page.evaluate(isCut)]).toEqual([path, false]);
  }
  await close();
});

test('the filters of the platform audit do not move, however late the organizations for one of them arrive', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await portal.gateway.call('POST', '/api/v1/admin/organizations', portal.world.people.operator.token, {
    name: 'An organization of some length',
    owner_email: 'length@example.com',
  });
  const answer = Promise.withResolvers<void>();
  await page.route('**/api/v1/admin/organizations?*', async (route) => {
    await answer.promise;
    await route.continue();
  });
  await signIn(page, portal.url, users.operator, '/operator/audit');
  const day = page.getByLabel('From (UTC)');
  await page.getByRole('table', { name: 'Audit events' }).waitFor();
  const before = await day.boundingBox();
  answer.resolve();
  await page.getByRole('option', { name: 'Northwind Robotics' }).waitFor({ state: 'attached' });
  expect(await day.boundingBox()).toEqual(before);
  await close();
});

test('an organization’s name keeps its words whole in the platform audit', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 1280, height: 900 } });
  await signIn(page, portal.url, users.operator, '/operator/audit');
  const name = page.locator('td[data-label="No."]').getByText('Northwind Robotics').first();
  await name.waitFor();
  expect(
    await name.evaluate((element) => new Set([...element.getClientRects()].map(({ top }) => top)).size),
  ).toBeLessThan(3);
  await close();
});

test('an organization’s name of one long word wraps above its calls', async () => {
  const { gateway, url, world } = portal;
  const name = 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerk';
  const organization = { name, owner_email: 'owner@donau.example' };
  const made = await gateway.call('POST', '/api/v1/admin/organizations', world.people.operator.token, organization);
  const { page, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await signIn(page, url, users.operator, `/operator/calls?organization=${made.json.organization.id}`);
  await page.getByRole('heading', { name: `Calls of ${name}` }).waitFor();
  expect(Number(await page.evaluate('document.documentElement.scrollWidth'))).toBeLessThanOrEqual(390);
  await close();
});

test('numbers are aligned under their column’s name wherever there is room: five columns on a tablet, three on a phone', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner);
  /** The right edges of a column and its header; 'cards' if there are no columns. */
  const edges = async (table: string, column: string) => {
    const shown = page.getByRole('table', { name: table });
    const head = shown.getByRole('columnheader', { name: column });
    if ((await head.count()) === 0) return 'cards';
    const cells = [head, ...(await shown.locator(`td[data-label="${column}"]`).all())];
    const boxes = await Promise.all(cells.map(async (cell) => (await cell.boundingBox())!));
    return new Set(boxes.map((box) => Math.round(box.x + box.width)));
  };
  await page.setViewportSize({ width: 1024, height: 768 });
  await goWithin(page, '/usage');
  await settled(page);
  expect(await edges('Usage by model', 'Output tokens')).toHaveProperty('size', 1);
  await page.setViewportSize({ width: 390, height: 844 });
  await goWithin(page, '/');
  await settled(page);
  expect(await edges('Models you used', 'Requests')).toHaveProperty('size', 1);
  await goWithin(page, '/keys');
  await settled(page);
  expect(await edges('API keys', 'Uses')).toBe('cards');
  await close();
});

test('on a phone an amount of a million with its cents stays on one line in its tile', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await page.route('**/api/v1/billing/wallet', async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, json: { ...(await answer.json()), balance_usd: 1_234_567.89 } });
  });
  await signIn(page, portal.url, users.owner, '/billing');
  for (const width of [390, 320]) {
    await page.setViewportSize({ width, height: 844 });
    const { height } = (await page.getByText('$1,234,567.89').boundingBox())!;
    expect(height, `${width} px`).toBeLessThan(30);
  }
  await close();
});

test('on a phone no amount of a table with three columns is cut', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 375, height: 800 } });
  await signIn(page, portal.url, users.owner);
  await page.getByRole('table', { name: 'Models you used' }).waitFor();
  const beyond = `(() => {
    const { scrollWidth, clientWidth } = document.querySelector('[aria-label="Models you used"]').parentElement;
    return scrollWidth - clientWidth;
  })()`;
  expect(await page.evaluate(beyond)).toBe(0);
  await close();
});

test('beside a name of any length a shortened id stays on one line', async () => {
  const { page, close } = await openPage(browser);
  const { operator } = portal.world.people;
  await ok(portal.gateway, 'POST', '/admin/organizations', operator.token, {
    name: 'Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft'.repeat(2),
    owner_email: `owner.${randomUUID()}@example.com`,
  });
  await signIn(page, portal.url, users.operator, '/operator/organizations');
  const id = page.getByRole('row').filter({ hasText: 'Donaudampf' }).first().locator('code');
  expect(await id.evaluate((code) => code.getClientRects().length)).toBe(1);
  await close();
});

test('the names of columns are on one line, sortable or not, on either side', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/billing?tab=invoices');
  await page.getByRole('table', { name: 'Invoices' }).waitFor();
  const tops = await page.evaluate(`[...document.querySelectorAll('main thead th:not(:last-child)')].map((head) => {
    const name = document.createRange();
    name.selectNodeContents(document.createTreeWalker(head, 4).nextNode());
    return name.getBoundingClientRect().top;
  })`);
  expect(new Set(tops as number[]).size).toBe(1);
  await close();
});

test('a price wraps only between its parts', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/models');
  const price = page.locator('td[data-label="Price"]', { hasText: '$2.50' });
  await price.waitFor();
  expect(await price.innerText()).toBe('$2.50\u00a0in\u00a0· $10.00\u00a0out\nper million tokens');
  await close();
});

test('names of models, endpoints and keys wrap between their parts, and not within a word', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/usage?by=request');
  await page.getByRole('table', { name: 'Requests' }).waitFor();
  const brokenWords = `(() => {
    const broken = [];
    for (const cell of document.querySelectorAll('td:is([data-label="Model"], [data-label="Endpoint"], [data-label="Key"])')) {
      const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
      while (texts.nextNode()) {
        for (const { index, 0: word } of texts.currentNode.data.matchAll(/[a-z0-9]+/gi)) {
          const range = document.createRange();
          range.setStart(texts.currentNode, index);
          range.setEnd(texts.currentNode, index + word.length);
          if (new Set([...range.getClientRects()].map(({ top }) => top)).size > 1) broken.push(word);
        }
      }
    }
    return [...new Set(broken)];
  })()`;
  expect(await page.evaluate(brokenWords)).toEqual([]);
  await close();
});

test('the name of a plan stays whole on the narrowest phone', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 320, height: 800 } });
  await signIn(page, portal.url, users.operator, `/operator/organizations/${portal.world.people.tenantId}`);
  const name = page.getByRole('definition').filter({ hasText: 'Developer' }).first();
  await name.waitFor();
  const lines = await name.evaluate((shown) => {
    const range = shown.ownerDocument.createRange();
    range.selectNodeContents(shown.ownerDocument.createTreeWalker(shown, 4).nextNode()!);
    return range.getClientRects().length;
  });
  expect(lines).toBe(1);
  await close();
});

test('an email address too long for its place wraps before its @ and not within a word', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await signIn(page, portal.url, users.owner, '/organization?tab=invitations');
  const linesOfAddresses = `(() => {
    const lines = (node) => {
      const range = document.createRange();
      range.selectNodeContents(node);
      return range.getClientRects().length;
    };
    const texts = document.createTreeWalker(document.querySelector('table'), NodeFilter.SHOW_TEXT);
    const found = [];
    while (texts.nextNode()) if (texts.currentNode.data.includes('example.com')) found.push(lines(texts.currentNode));
    return found;
  })()`;
  await settled(page);
  expect(new Set((await page.evaluate(linesOfAddresses)) as number[])).toEqual(new Set([1]));
  await close();
});

/** Rows whose first cell has text under a button, or whose text crosses the edge of the table; facts that cross the edge of their card. */
const textsCovered = `(() => {
  const texts = (root) => {
    const range = document.createRange();
    range.selectNodeContents(root);
    return [...range.getClientRects()].filter(({ width }) => width > 1);
  };
  const facts = [...document.querySelectorAll('main dd')].filter((fact) =>
    texts(fact).some((text) => text.right > fact.getBoundingClientRect().right + 1),
  );
  const rows = [...document.querySelectorAll('main tbody tr')].filter((row) => {
    const edge = row.closest('table').getBoundingClientRect().right;
    const button = row.querySelector('td[data-label=""] button')?.getBoundingClientRect();
    const isCovered = texts(row.firstElementChild).some(
      (text) => button !== undefined && text.right > button.left && text.top < button.bottom && text.bottom > button.top,
    );
    const isOutside = texts(row).some((text) => text.right > edge + 1);
    return isCovered || isOutside;
  });
  return [...facts, ...rows].map(({ textContent }) => textContent.slice(0, 60));
})()`;
