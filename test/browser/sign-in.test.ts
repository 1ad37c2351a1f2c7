import type { Locator, Route } from 'playwright-core';
import { expect, test } from 'vitest';
import { type Credentials, goWithin, openPage, overPlainHttp, signIn, signInByForm } from './support/browser.ts';
import { users } from './support/portal.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';
import { tokenMailedTo } from './support/world/people.ts';

sharePortal();

const mailedTo = (email: string) => tokenMailedTo(portal.gateway, portal.world.people.operator.token, email);

test('a wrong password is reported with the request id, and the form keeps what was typed', async () => {
  const { page, close } = await openPage(browser);
  await page.goto(`${portal.url}/sign-in`);
  await page.getByLabel('Email').fill(users.member.email);
  await page.getByLabel('Password').fill('wrong');
  await page.getByRole('button', { name: 'Sign in' }).click();
  const alert = page.getByRole('alert');
  await alert.getByText('The email address or the password is wrong.').waitFor();
  expect(await alert.textContent()).toMatch(/Request req_[0-9a-f]+/);
  expect(await page.getByLabel('Email').inputValue()).toBe(users.member.email);
  await close();
});

test('a field left empty is complained about in plain words, at the first such field, before the gateway is asked', async () => {
  const { page, close } = await openPage(browser);
  const asked: string[] = [];
  await page.route('**/api/v1/auth/login', (route) => {
    asked.push(route.request().url());
    return route.continue();
  });
  await page.goto(`${portal.url}/sign-in`);
  const email = page.getByLabel('Email');
  const password = page.getByLabel('Password');
  const complaints = () => page.getByRole('alert').allInnerTexts();
  const isFocused = (field: Locator) => field.evaluate((input) => input.matches(':focus'));
  await page.getByRole('button', { name: 'Sign in' }).click();
  expect(await complaints()).toEqual(['Fill this in.', 'Fill this in.']);
  expect(await isFocused(email)).toBe(true);
  await email.fill(users.member.email);
  await email.press('Enter');
  expect(await complaints()).toEqual(['Fill this in.']);
  expect([await isFocused(password), await password.getAttribute('aria-invalid')]).toEqual([true, 'true']);
  expect(asked).toEqual([]);
  await password.fill(users.member.password);
  await password.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  await close();
});

test('a password is shown while its button says so, and hidden again when the form is sent; the button sends nothing and is not printed', async () => {
  const { page, close } = await openPage(browser);
  const asked: string[] = [];
  await page.route('**/api/v1/auth/login', (route) => {
    asked.push(route.request().url());
    return route.continue();
  });
  await page.goto(`${portal.url}/sign-in`);
  await page.getByLabel('Email').fill(users.member.email);
  const password = page.getByLabel('Password');
  await password.fill('wrong');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  const hide = page.getByRole('button', { name: 'Hide password' });
  expect(await hide.evaluate((button) => button.matches(':focus'))).toBe(true);
  expect(await password.getAttribute('type')).toBe('text');
  expect([await password.getAttribute('autocapitalize'), await password.getAttribute('spellcheck')]).toEqual([
    'none',
    'false',
  ]);
  await hide.press('Space');
  expect(await password.getAttribute('type')).toBe('password');
  const show = page.getByRole('button', { name: 'Show password' });
  await show.click();
  await page.emulateMedia({ media: 'print' });
  expect(await hide.isVisible()).toBe(false);
  await page.emulateMedia({ media: 'screen' });
  expect(asked).toEqual([]);
  await password.press('Enter');
  await page.getByRole('alert').getByText('The email address or the password is wrong.').waitFor();
  expect([await password.getAttribute('type'), await password.inputValue()]).toEqual(['password', 'wrong']);
  await show.waitFor();
  await close();
});

test.each([
  ['member', '/settings', ['current password', 'new password']],
  ['nobody', '/reset-password?token=some-token', ['new password']],
] as const)('%s can see each password that is typed at %s', async (who, path, names) => {
  const { page, close } = await openPage(browser);
  if (who === 'nobody') await page.goto(portal.url + path);
  else await signIn(page, portal.url, users[who], path);
  for (const name of names) {
    await page.getByRole('button', { name: `Show ${name}` }).click();
    expect(await page.getByLabel(name).getAttribute('type')).toBe('text');
  }
  await close();
});

test('the session survives a reload thanks to the HttpOnly cookie, and no token is where a script can read it', async () => {
  const { page, close } = await openPage(browser);
  await signInByForm(page, portal.url, users.member);
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  expect(await page.evaluate('document.cookie')).toBe('');
  expect(await page.evaluate('JSON.stringify([{...localStorage}, {...sessionStorage}])')).toBe('[{},{}]');
  const cookie = (await page.context().cookies(`${portal.url}/api/v1/auth/refresh`))[0];
  expect(cookie).toMatchObject({ httpOnly: true, secure: true, sameSite: 'Strict' });
  await close();
});

test('the sign-in page warns where no session survives a reload, since the cookie travels over HTTPS only', async () => {
  const { page, close } = await openPage(browser);
  const warning = page.getByText('a reload signs you out');
  await page.goto(`${await overPlainHttp(page, portal.url)}/sign-in`);
  await warning.waitFor();
  await page.goto(`${portal.url}/sign-in`);
  await page.getByLabel('Email').waitFor();
  expect(await warning.count()).toBe(0);
  await close();
});

test('signing in never leads out of the portal', async () => {
  const { page, close } = await openPage(browser);
  await page.goto(`${portal.url}/sign-in?next=${encodeURIComponent('//evil.example')}`);
  await page.getByLabel('Email').fill(users.member.email);
  await page.getByLabel('Password').fill(users.member.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  expect(page.url()).toBe(`${portal.url}/`);
  await close();
});

test('signing out ends the session in every tab', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  const other = await page.context().newPage();
  await other.goto(`${portal.url}/keys`);
  await other.getByRole('table', { name: 'API keys' }).waitFor();
  await page.getByRole('button', { name: /Mia Member/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await other.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.reload();
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  await close();
});

test('a change that was not answered before its user signed out is not made by whoever signs in next', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  await page.goto(`${portal.url}/settings`);
  const asked = Promise.withResolvers<Route>();
  let changes = 0;
  await page.route('**/api/v1/profile', (route) => {
    if (route.request().method() !== 'PATCH') return route.continue();
    changes += 1;
    if (changes > 1) return route.abort();
    return asked.resolve(route);
  });
  await page.getByLabel('First name').fill('Maria');
  await page.getByRole('button', { name: 'Save profile' }).click();
  const late = await asked.promise;
  await page.getByRole('button', { name: /Mia Member/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByLabel('Email').fill(users.admin.email);
  await page.getByLabel('Password').fill(users.admin.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { level: 1, name: /^Hello/ }).waitFor();
  await late.fulfill({ status: 401, json: {} });
  await page.getByRole('link', { name: 'Jobs', exact: true }).first().click();
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  expect(changes).toBe(1);
  await close();
});

test('whoever signs in while it is still unknown whether they are stays so when a late answer says that they were not', async () => {
  const { page, close } = await openPage(browser);
  const signInHere = async () => {
    await page.getByLabel('Email').fill(users.member.email);
    await page.getByLabel('Password').fill(users.member.password);
    await page.getByRole('button', { name: 'Sign in' }).click();
  };
  const asked = Promise.withResolvers<Route>();
  await page.route('**/api/v1/auth/refresh', (route) => asked.resolve(route), { times: 1 });
  await page.goto(`${portal.url}/sign-in`);
  const late = await asked.promise;
  await signInHere();
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  await late.fulfill({ status: 401, json: {} });
  await page.getByRole('link', { name: 'Jobs', exact: true }).first().click();
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  expect(await page.getByRole('button', { name: /Mia Member/ }).count()).toBe(1);

  // The same while the page asks whether a session goes on that another tab ends.
  const other = await page.context().newPage();
  await other.goto(portal.url);
  await other.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  const again = Promise.withResolvers<Route>();
  await page.route('**/api/v1/auth/refresh', (route) => again.resolve(route), { times: 1 });
  await page.route('**/api/v1/models?*', (route) => route.fulfill({ status: 401, json: {} }), { times: 1 });
  await page.getByRole('link', { name: 'Models', exact: true }).first().click();
  const later = await again.promise;
  const answer = await later.fetch();
  expect(answer.status()).toBe(200);
  await other.getByRole('button', { name: /Mia Member/ }).click();
  await other.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByText('You are signed out.').waitFor();
  await signInHere();
  await page.getByRole('heading', { level: 1, name: 'Models' }).waitFor();
  // Who is refused meanwhile does not wait for that answer.
  const jobs = /\/api\/v1\/jobs(\?|$)/;
  let isRefused = false;
  await page.route(jobs, (route) => {
    if (isRefused) return route.continue();
    isRefused = true;
    return route.fulfill({ status: 401, json: {} });
  });
  const refused = page.waitForResponse(jobs);
  const read = page.waitForResponse((answer) => jobs.test(answer.url()) && answer.ok());
  await page.getByRole('link', { name: 'Jobs', exact: true }).first().click();
  await refused;
  await read;
  await later.fulfill({ response: answer }).catch(() => {});
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  expect(await page.getByRole('heading', { name: 'Sign in' }).count()).toBe(0);
  // Nor has its cookie replaced that of the session begun since.
  await page.reload();
  await page.getByRole('heading', { level: 1, name: 'Jobs' }).waitFor();
  await close();
});

test('a tab that was about to go on with a session stays signed out when another tab has ended it meanwhile', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  const other = await page.context().newPage();
  const asked = Promise.withResolvers<Route>();
  await other.route('**/api/v1/auth/refresh', (route) => asked.resolve(route), { times: 1 });
  const requests: string[] = [];
  await other.goto(`${portal.url}/keys`);
  const late = await asked.promise;
  const response = await late.fetch();
  expect(response.status()).toBe(200);
  other.on('request', (request) => requests.push(new URL(request.url()).pathname));
  await page.getByRole('button', { name: /Mia Member/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await other.getByRole('heading', { name: 'Sign in' }).waitFor();
  const answered = other.waitForResponse('**/api/v1/auth/refresh');
  await late.fulfill({ response });
  await (await answered).finished();
  // What follows an answer has been done once the page has drawn two frames.
  await other.evaluate('new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))');
  expect(requests.filter((path) => path.startsWith('/api/'))).toEqual([]);
  expect(await other.getByText('Sign in to continue.', { exact: true }).count()).toBe(1);
  await close();
});

test('whoever opens an address without a session is asked to sign in to continue, not to go on with what they never began', async () => {
  const { page, close } = await openPage(browser);
  await page.goto(`${portal.url}/models`);
  await page.getByText('Sign in to continue.', { exact: true }).waitFor();
  await page.goto(`${portal.url}/sign-in`);
  await page.getByLabel('Email').waitFor();
  expect(await page.getByText('Sign in to continue').count()).toBe(0);
  await close();
});

test('whoever signs out reads that they have, and signing in again brings every tab back to where it was', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/jobs');
  const other = await page.context().newPage();
  await other.goto(`${portal.url}/keys?type=inference`);
  await other.getByRole('table', { name: 'API keys' }).waitFor();
  await page.getByRole('button', { name: /Mia Member/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  for (const tab of [page, other]) await tab.getByText('You are signed out.').waitFor();
  await page.getByLabel('Email').fill(users.member.email);
  await page.getByLabel('Password').fill(users.member.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Jobs', exact: true }).waitFor();
  await other.getByRole('table', { name: 'API keys' }).waitFor();
  expect(other.url()).toBe(`${portal.url}/keys?type=inference`);
  await close();
});

test('whoever signs in where somebody else has signed out begins at the overview, in every tab, not where the other one was', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.operator, '/operator/health');
  const other = await page.context().newPage();
  await other.goto(`${portal.url}/operator/plans`);
  await other.getByRole('heading', { level: 1, name: 'Plans' }).waitFor();
  await page.getByRole('button', { name: /Otto Operator/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await other.getByRole('heading', { name: 'Sign in' }).waitFor();
  await page.getByLabel('Email').fill(users.member.email);
  await page.getByLabel('Password').fill(users.member.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  for (const tab of [page, other]) {
    await tab.getByRole('button', { name: /Mia Member/ }).waitFor();
    await expect.poll(() => tab.getByRole('heading', { level: 1 }).textContent()).toBe('Hello, Mia');
  }
  await close();
});

test('a tab never switches to another person unnoticed: it is reloaded as whoever signed in last, and its pending requests are dropped', async () => {
  const { page, close } = await openPage(browser);
  const { operator } = portal.world.people;
  const other = await page.context().newPage();
  await other.goto(`${portal.url}/sign-in`);
  await other.getByLabel('Email').waitFor();
  await signIn(page, portal.url, users.member);
  await page.getByRole('heading', { name: 'Hello, Mia' }).waitFor();
  await other.getByLabel('Email').fill(users.owner.email);
  await other.getByLabel('Password').fill(users.owner.password);
  await other.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Hello, Olga' }).waitFor();

  // The other tabs do not notice until one of them needs another token.
  await page.goto(`${portal.url}/keys?create=1`);
  await page.getByRole('dialog').getByLabel('Name').fill('Of whom?');
  await signIn(other, portal.url, users.operator);
  await page.route('**/api/v1/api-keys', (route) => route.fulfill({ status: 401, json: {} }), { times: 1 });
  await page.getByRole('dialog').getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('button', { name: /Otto Operator/, includeHidden: true }).waitFor();
  expect(await page.getByRole('dialog').getByLabel('Name').inputValue()).toBe('');
  expect((await portal.gateway.call('GET', '/api/v1/api-keys', operator.token)).json.data).toEqual([]);
  await close();
});

test.each([
  ['accepts an invitation', '/accept-invite?token=some-token', 'Password', 'Accept invitation', 'Welcome!'],
  [
    'resets a password',
    '/reset-password?token=some-token',
    'New password',
    'Set password',
    'Your password has been changed.',
  ],
] as const)('whoever %s where somebody else is signed in signs in as themselves', async (_, path, label, act, said) => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  const invitation = { email: 'new@example.com', role: 'member', organization: { name: 'Northwind Robotics' } };
  await page.route('**/auth/invitation', (route) => route.fulfill({ json: invitation }));
  await page.route(/\/auth\/(accept-invite|password\/reset)$/, (route) => route.fulfill({ status: 204 }));
  await page.goto(portal.url + path);
  await page.getByRole('textbox', { name: label }).fill('abcdefgH1!');
  await page.getByRole('button', { name: act }).click();
  await page.getByText(said).waitFor();
  await page.reload();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  await close();
});

test('somebody changes their email address: a link mailed to the new one leads through sign-in to a page that asks first; an operator sets it right', async () => {
  const { page, troubles, close } = await openPage(browser);
  const { owner, operator } = portal.world.people;
  const [former, wanted] = ['ada.maiden@example.com', 'ada.married@example.com'];
  const password = 'abcdefgH1!';
  await portal.gateway.call('POST', '/api/v1/invitations', owner.token, { email: former, role: 'member' });
  const accepted = { token: await mailedTo(former), password, first_name: 'Ada', last_name: 'Maiden' };
  await portal.gateway.call('POST', '/api/v1/auth/accept-invite', '', accepted);

  await signIn(page, portal.url, { email: former, password }, '/settings');
  await page.getByRole('button', { name: 'Change email' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('New email').fill(wanted);
  await dialog.getByRole('textbox', { name: 'Password' }).fill(password);
  await dialog.getByRole('button', { name: 'Email me a link' }).click();
  await dialog.getByText(`An email is on its way to ${wanted}`).waitFor();
  await dialog.getByRole('button', { name: 'Done' }).click();
  await page.getByText(former).first().waitFor();

  await page.getByRole('button', { name: /Ada Maiden/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.goto(`${portal.url}/confirm-email?token=${await mailedTo(wanted)}#email=${encodeURIComponent(wanted)}`);
  await page.getByLabel('Email').fill(former);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText(`you sign in with ${wanted} instead of ${former}`).waitFor();
  await page.getByRole('button', { name: 'Confirm address' }).click();
  await page.getByText(`You now sign in with ${wanted}.`).first().waitFor();
  await page.getByRole('heading', { name: 'Settings', exact: true }).waitFor();
  await page.getByRole('definition').getByText(wanted).waitFor();

  await signIn(page, portal.url, users.operator, `/operator/organizations/${portal.world.people.tenantId}?tab=members`);
  const unverified = page.getByText('Unverified');
  await page.getByRole('button', { name: `Actions for ${wanted}` }).click();
  expect(await unverified.count()).toBe(0);
  await page.getByRole('menuitem', { name: 'Change email' }).click();
  await dialog.getByLabel('New email').fill(users.owner.email);
  await dialog.getByRole('button', { name: 'Change address' }).click();
  await dialog.getByText('An account with this email address already exists.').waitFor();
  await dialog.getByLabel('New email').fill('ada@example.com');
  await dialog.getByRole('button', { name: 'Change address' }).click();
  await page.getByRole('button', { name: 'Actions for ada@example.com' }).waitFor();
  // Until its owner sets a new password by a link that it was sent.
  await unverified.waitFor();
  expect(troubles.filter((trouble) => !trouble.includes('409'))).toEqual([]);
  expect((await portal.gateway.call('GET', '/api/v1/admin/users?search=ada@', operator.token)).json.data).toHaveLength(
    1,
  );
  await close();
});

test('an invitation opened where somebody is signed in says who will be signed out, and is as quiet as ever where nobody is', async () => {
  const { page, troubles, close } = await openPage(browser);
  const email = 'second.account@example.com';
  await portal.gateway.call('POST', '/api/v1/invitations', portal.world.people.owner.token, { email, role: 'member' });
  const address = `${portal.url}/accept-invite?token=${await mailedTo(email)}`;
  const warning = page.getByText('signs you out');
  await page.goto(address);
  await page.getByLabel('First name').waitFor();
  expect(await warning.count()).toBe(0);
  await signIn(page, portal.url, users.member, '/keys');
  await page.goto(address);
  await warning.getByText(users.member.email).waitFor();
  await page.getByLabel('First name').fill('Sam');
  await page.getByLabel('Last name').fill('Second');
  await page.getByRole('textbox', { name: 'Password' }).fill('abcdefgH1!');
  await page.getByRole('button', { name: 'Accept invitation' }).click();
  await page.getByText('Welcome!').waitFor();
  expect(await page.getByLabel('Email').inputValue()).toBe(email);
  expect(troubles).toEqual([]);
  await close();
});

test('an invitation says to what and whom it is, and ticks each password rule as it is met; a spent one is refused before anybody types', async () => {
  const { page, close } = await openPage(browser);
  const address = `${portal.url}/accept-invite?token=${await mailedTo('new.colleague@example.com')}`;
  await page.goto(address);
  await page.getByText('Join Northwind Robotics as a member. Set a password for new.colleague@example.com').waitFor();
  const met = async () =>
    page.getByRole('list', { name: 'Password rules' }).locator('[data-met="true"]').allTextContents();
  const button = page.getByRole('button', { name: 'Accept invitation' });
  const password = page.getByRole('textbox', { name: 'Password' });
  await password.fill('abc');
  expect(await met()).toEqual(['A lower-case letter (met)']);
  await password.fill('abcdefgH1');
  expect(await met()).toHaveLength(4);
  expect(await button.isDisabled()).toBe(true);
  await password.fill('abcdefgH1!');
  expect(await met()).toHaveLength(5);
  await page.getByLabel('First name').fill('Nina');
  await page.getByLabel('Last name').fill('New');
  expect(await page.getByLabel('Organization').count()).toBe(0);
  await button.click();
  await page.getByText('Sign in with the address your invitation was sent to.').waitFor();
  await signIn(page, portal.url, { email: 'new.colleague@example.com', password: 'abcdefgH1!' });
  await page.getByRole('heading', { name: 'Hello, Nina' }).waitFor();
  await page.context().clearCookies();

  await page.goto(address);
  await page.getByText('This invitation is unknown, already used, withdrawn or expired.').waitFor();
  expect(await password.count()).toBe(0);
  await page.goto(`${portal.url}/accept-invite`);
  await page.getByText('Open the link in your invitation email').waitFor();
  await close();
});

test('the first owner names the organization while accepting', async () => {
  const { page, close } = await openPage(browser);
  const made = await portal.gateway.call('POST', '/api/v1/admin/organizations', portal.world.people.operator.token, {
    owner_email: 'first@fabrikam.example',
  });
  expect(made.status).toBe(201);
  const { operator } = portal.world.people;
  const mails = await portal.gateway.call('GET', '/api/v1/admin/mail?search=first@fabrikam', operator.token);
  const [link] = /\/accept-invite\S+/.exec(mails.json.data[0].text)!;
  const field = page.getByLabel('Organization');
  await page.goto(portal.url + link);
  await page.getByText('Create an organization and become its owner.').waitFor();
  await page.getByRole('textbox', { name: 'Password' }).fill('abcdefgH1!');
  await page.getByLabel('First name').fill('Fay');
  await page.getByLabel('Last name').fill('First');
  await page.getByRole('button', { name: 'Accept invitation' }).click();
  await expect.poll(() => field.getAttribute('aria-invalid')).toBe('true');
  await field.fill('Fabrikam');
  await page.getByRole('button', { name: 'Accept invitation' }).click();
  await page.getByText('Sign in with the address your invitation was sent to.').waitFor();
  await signIn(page, portal.url, { email: 'first@fabrikam.example', password: 'abcdefgH1!' }, '/organization');
  await page.getByText('Fabrikam').first().waitFor();
  await close();
});

test('a forgotten password is requested and reset; registering says that it is unavailable', async () => {
  const { page, close } = await openPage(browser);
  await page.goto(`${portal.url}/sign-in`);
  await page.getByRole('link', { name: 'Forgot your password?' }).click();
  await page.getByLabel('Email').fill(users.admin.email);
  await page.getByRole('button', { name: 'Email me a link' }).click();
  await page.getByText(`If there is an account for ${users.admin.email}`).waitFor();
  await page.goto(`${portal.url}/reset-password?token=${await mailedTo(users.admin.email)}`);
  await page.getByLabel('New password').fill('abcdefgH1!');
  await page.getByRole('button', { name: 'Set password' }).click();
  await page.getByText('Your password has been changed.').waitFor();
  await page.getByRole('link', { name: 'How that works' }).click();
  await page.getByText('Self-service registration is unavailable.').waitFor();
  await signIn(page, portal.url, { email: users.admin.email, password: 'abcdefgH1!' });
  await page.getByRole('heading', { name: 'Hello, Adam' }).waitFor();
  await close();
});

test('a page does not show words that a link gives in place of an address', async () => {
  const { page, close } = await openPage(browser);
  await page.goto(
    `${portal.url}/reset-password?token=x#email=${encodeURIComponent('Call +1 555 0100, not me@example.com')}`,
  );
  await page.getByRole('heading', { name: 'Set a new password' }).waitFor();
  expect(await page.locator('body').textContent()).not.toContain('Call');
  await close();
});

test('a mailed link names its user to password managers, and then only the password is asked for', async () => {
  const { page, close } = await openPage(browser);
  const { owner, operator } = portal.world.people;
  const { call } = portal.gateway;
  const email = 'pat+test@example.com';
  const mailedLink = async () => {
    const { json } = await call('GET', '/api/v1/admin/mail?search=pat', operator.token);
    return portal.url + /\/[\w-]+\?token=\S+/.exec(json.data[0].text)![0];
  };
  const setPassword = async (password: string, button: string) => {
    expect(await page.locator('form input[autocomplete="username"]').inputValue()).toBe(email);
    await page.getByText(email).waitFor();
    await page.getByRole('textbox', { name: /password/i }).fill(password);
    await page.getByRole('button', { name: button }).click();
    expect(await page.getByLabel('Email').inputValue()).toBe(email);
    expect(await page.evaluate('document.activeElement.type')).toBe('password');
  };
  await call('POST', '/api/v1/invitations', owner.token, { email, role: 'member' });
  await page.goto(await mailedLink());
  await page.getByLabel('First name').fill('Pat');
  await page.getByLabel('Last name').fill('Test');
  await setPassword('abcdefgH1!', 'Accept invitation');
  await call('POST', '/api/v1/auth/password/forgot', undefined, { email });
  await page.goto(await mailedLink());
  await setPassword('abcdefgH2!', 'Set password');
  await page.keyboard.type('abcdefgH2!');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1 }).filter({ hasText: 'Hello' }).waitFor();
  await close();
});

// Last among the tests that use the world's sessions, since it ends every one.
test('an operator sees the signing keys, replaces the current one unnoticed, or ends every session with it after a confirmation', async () => {
  const { page, close } = await openPage(browser);
  const { call, login } = portal.gateway;
  const token = await login(users.member);
  const statusForMember = async () => (await call('GET', '/api/v1/profile', token)).status;
  expect(await statusForMember()).toBe(200);
  await signIn(page, portal.url, users.operator, '/operator/signing-keys');
  const keys = page.getByRole('table', { name: 'Signing keys' }).getByRole('row');
  const dialog = page.getByRole('dialog');
  await keys.filter({ hasText: 'active' }).waitFor();
  expect(await keys.filter({ hasText: 'retiring' }).count()).toBe(0);
  await page.getByRole('button', { name: 'New signing key' }).click();
  await keys.filter({ hasText: 'retiring' }).waitFor();
  expect(await keys.filter({ hasText: 'active' }).count()).toBe(1);
  expect(await keys.filter({ hasText: 'retiring' }).count()).toBe(1);
  expect(await statusForMember()).toBe(200);
  await goWithin(page, '/operator/organizations');
  await page.getByRole('table').getByRole('link', { name: 'Northwind Robotics' }).waitFor();

  await goWithin(page, '/operator/signing-keys');
  await page.getByRole('button', { name: 'End all sessions' }).click();
  await dialog.getByText(/Everyone in every organization is signed out/).waitFor();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  expect(await statusForMember()).toBe(200);
  await page.getByRole('button', { name: 'End all sessions' }).click();
  // With half a million sessions it takes longer than the portal waits for other answers.
  await page.evaluate(`
    const real = AbortSignal.timeout;
    AbortSignal.timeout = (ms) => (ms > 60_000 ? real.call(AbortSignal, ms) : AbortSignal.abort(new DOMException('', 'TimeoutError')));
  `);
  await dialog.getByRole('button', { name: 'End all sessions' }).click();
  await page.getByRole('button', { name: 'Sign in' }).waitFor();
  expect(await statusForMember()).toBe(401);
  await page.reload();
  await signInByForm(page, portal.url, users.operator, '/operator/signing-keys');
  await page.getByRole('heading', { level: 1, name: 'Signing keys' }).waitFor();
  await close();
});

test('an expired access token is renewed once, unnoticed', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member);
  await page.getByRole('heading', { level: 1, name: 'Hello, Mia' }).waitFor();
  let refreshes = 0;
  page.on('request', (request) => {
    if (request.url().endsWith('/auth/refresh')) refreshes++;
  });
  portal.travel(31 * 60_000);
  await page.getByRole('link', { name: 'API keys' }).click();
  await page.getByRole('table', { name: 'API keys' }).getByText('First steps').waitFor();
  expect(refreshes).toBe(1);
  await close();
});

test('a session that has ended leads to the sign-in page and back to the same page', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/keys?type=management');
  await page.getByRole('heading', { level: 1, name: 'API keys' }).waitFor();
  // Past the seven days of the refresh token.
  portal.travel(8 * 86_400_000);
  await page.getByLabel('Type', { exact: true }).selectOption('inference');
  await page.getByText('Sign in to continue where you left off.').waitFor();
  await page.getByLabel('Email').fill(users.member.email);
  await page.getByLabel('Password').fill(users.member.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('table', { name: 'API keys' }).waitFor();
  expect(page.url()).toBe(`${portal.url}/keys?type=inference`);
  await close();
});

test('what was being typed when a session ended is back once the same person has signed in; nobody else sees it, and it is stored nowhere', async () => {
  const { page, troubles, close } = await openPage(browser);
  const signInHere = async ({ email, password }: Credentials) => {
    await page.getByRole('textbox', { name: 'Email' }).fill(email);
    await page.getByRole('textbox', { name: 'Password' }).fill(password);
    await page.getByRole('button', { name: 'Sign in' }).click();
  };
  const dialog = page.getByRole('dialog', { name: 'Create an API key' });
  const name = dialog.getByLabel('Name');
  await signIn(page, portal.url, users.member, '/keys?create=1');
  await name.fill('Half typed');
  portal.travel(8 * 86_400_000);
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await page.getByText('Sign in to continue where you left off.').waitFor();
  expect(await dialog.isVisible()).toBe(false);
  expect(await page.getByRole('table').isVisible()).toBe(false);
  expect(await page.evaluate('JSON.stringify([{...localStorage}, {...sessionStorage}])')).toBe('[{},{}]');
  await signInHere(users.member);
  await dialog.waitFor();
  expect(await name.inputValue()).toBe('Half typed');
  await dialog.getByRole('alert').getByText('Your session had ended, so this was not done.').waitFor();
  await expect.poll(() => page.evaluate('document.activeElement.textContent')).toBe('Create key');
  await dialog.getByRole('button', { name: 'Create key' }).click();
  await page.getByRole('dialog', { name: 'Half typed is ready' }).waitFor();

  // A form whose fields start with values that are read, and read again meanwhile.
  await page.goto(`${portal.url}/settings`);
  const phone = page.getByLabel('Phone');
  await phone.fill('+41 44 111 11 11');
  portal.travel(8 * 86_400_000);
  await page.getByRole('button', { name: 'Save profile' }).click();
  await page.getByText('Sign in to continue where you left off.').waitFor();
  await signInHere(users.member);
  await phone.waitFor();
  expect(await phone.inputValue()).toBe('+41 44 111 11 11');

  await page.goto(`${portal.url}/limits`);
  const limit = page.getByLabel('Limit in USD').first();
  await limit.fill('12.34');
  for (const who of [users.member, users.owner]) {
    portal.travel(8 * 86_400_000);
    // Several requests find out at once.
    await page.evaluate("['offline', 'online'].forEach((type) => window.dispatchEvent(new Event(type)))");
    await page.getByText('Sign in to continue where you left off.').waitFor();
    await signInHere(who);
    await limit.waitFor();
    expect((await limit.inputValue()) === '12.34').toBe(who === users.member);
    expect(page.url()).toBe(`${portal.url}/limits`);
  }
  await page.getByRole('button', { name: /Olga Owner/ }).waitFor();
  expect(troubles).toEqual([]);
  await close();
});
