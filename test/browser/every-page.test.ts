import { expect, test } from 'vitest';
import { seriousFindings } from './support/axe.ts';
import { goWithin, openPage, signIn } from './support/browser.ts';
import { type PageOfPortal, pagesOf } from './support/pages.ts';
import { users } from './support/portal.ts';
import { settled } from './support/settled.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

const looks = [
  { look: 'a desktop, light', viewport: { width: 1280, height: 900 }, colorScheme: 'light', isSearched: true },
  { look: 'a phone, dark', viewport: { width: 390, height: 844 }, colorScheme: 'dark', isSearched: true },
  // As wide as a desktop at 400% (WCAG 2.2, 1.4.10 Reflow); what axe finds there it has found on the phone.
  { look: 'the narrowest screen', viewport: { width: 320, height: 640 }, colorScheme: 'dark', isSearched: false },
] as const;

test.each(['nobody', 'member', 'owner', 'operator'] as const)(
  'every page of %s is accessible, keeps the content policy, fits desktop and phone and runs nobody’s markup',
  { timeout: 240_000 },
  async (as) => {
    const { page, troubles, close } = await openPage(browser);
    if (as === 'nobody') await page.goto(`${portal.url}/sign-in`);
    else await signIn(page, portal.url, users[as]);
    const wrong: string[] = [];
    for (const { name, path } of pagesOf(portal.world).filter((one: PageOfPortal) => one.as === as)) {
      await goWithin(page, path);
      for (const { look, viewport, colorScheme, isSearched } of looks) {
        await page.setViewportSize(viewport);
        await page.emulateMedia({ colorScheme });
        await settled(page);
        for (const finding of isSearched ? await seriousFindings(page) : [])
          wrong.push(`${name} on ${look}: ${finding}`);
        const overflow = await page.evaluate(
          'document.documentElement.scrollWidth - document.documentElement.clientWidth',
        );
        if (Number(overflow) > 0) wrong.push(`${name} on ${look}: ${overflow} px wider than the screen`);
      }
      if ((await page.evaluate('window.hacked')) !== undefined) wrong.push(`${name}: a name ran as code`);
      if ((await page.title()) === 'Model Gateway') wrong.push(`${name}: no title of its own`);
      if ((await page.locator('[role="alert"]').count()) > 0)
        wrong.push(`${name}: ${await page.locator('[role="alert"]').first().textContent()}`);
      // Such as "Edit" alone, which a screen reader would say once per row.
      const actions = page.locator('td[data-label=""] button:not([aria-label])');
      for (const action of new Set(await actions.allTextContents()))
        wrong.push(`${name}: "${action}" does not say for which row it is`);
      for (const trouble of troubles.splice(0)) wrong.push(`${name}: ${trouble}`);
    }
    expect(wrong).toEqual([]);
    await close();
  },
);

test('a dialog opens with the focus on its first field, or on the button that does nothing, and Close is reached last', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys');
  const focused = () =>
    page.evaluate('document.activeElement.labels?.[0]?.textContent || document.activeElement.ariaLabel');
  const menu = page.getByRole('button', { name: 'Actions for Checkout production' });
  for (const [action, field] of [
    ['Edit', 'Name'],
    ['Rotate secret', 'The old secret keeps working for'],
  ] as const) {
    await menu.press('Enter');
    await page.getByRole('menuitem', { name: action }).press('Enter');
    await expect.poll(focused).toBe(field);
    await page.keyboard.press('Shift+Tab');
    expect(await focused()).toBe('Close');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  }
  await goWithin(page, '/organization');
  await page.getByRole('button', { name: 'Deactivate member@example.com' }).press('Enter');
  await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Cancel');
  await close();
});

test('the first Tab on a loaded page reaches the link past the navigation, and that link leads to the content', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/health');
  await settled(page);
  await page.keyboard.press('Tab');
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content');
  await page.keyboard.press('Enter');
  await expect.poll(() => page.evaluate('document.activeElement.id')).toBe('content');
  await close();
});

test('a screen reader says what a row is about with each of its cells, and the page of a list that was turned to', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/keys');
  await page.getByRole('rowheader', { name: 'Nightly evaluation' }).waitFor();
  await goWithin(page, '/usage?by=request');
  const told = page.getByRole('status').filter({ hasText: /^Requests: / });
  await told.filter({ hasText: /, page 1 of \d+$/ }).waitFor();
  // Only a change within an element that was there before is announced.
  const before = await told.elementHandle();
  await page.getByRole('button', { name: 'Next page' }).click();
  await told.filter({ hasText: /, page 2 of \d+$/ }).waitFor();
  expect(await before!.evaluate((element) => element.isConnected)).toBe(true);
  await close();
});

test('a screen reader is told how many items a search has found, none included', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.owner, '/organization');
  const found = page.getByRole('main').getByRole('status');
  await found.filter({ hasText: 'Members: 3' }).waitFor();
  // Only a change within an element that was there before is announced.
  const before = await found.elementHandle();
  for (const [text, count] of [
    ['admin@', 1],
    ['nobody like this', 0],
  ] as const) {
    await page.getByLabel('Search members').fill(text);
    await found.filter({ hasText: `Members: ${count}` }).waitFor();
  }
  expect(await before!.evaluate((element) => element.isConnected)).toBe(true);
  await close();
});
