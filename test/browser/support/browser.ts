import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import chromium from '@sparticuz/chromium';
import {
  type Browser,
  type BrowserContextOptions,
  type Locator,
  type Page,
  chromium as playwright,
  type Request,
} from 'playwright-core';
import { onTestFailed } from 'vitest';

/**
 * Starts Chromium from the npm package, so that a bare machine needs nothing else (stack.md), or the one at CHROMIUM_PATH. The package's
 * own list of arguments is not used: it switches off web security, which is what these tests are about. `fontPx` is the size of text that
 * its user has set.
 */
export async function launchBrowser({ fontPx = 16 } = {}): Promise<Browser> {
  return playwright.launch({
    executablePath: process.env.CHROMIUM_PATH || (await unpackedChromium()),
    headless: true,
    // Determines the order in date fields, whatever the page's own locale.
    env: { ...process.env, LC_ALL: 'en_US.UTF-8' },
    args: [
      // Chromium refuses to sandbox when run by root, as in containers and CI.
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--disable-dev-shm-usage',
      '--font-render-hinting=none',
      `--blink-settings=defaultFontSize=${fontPx}`,
      '--use-fake-ui-for-media-stream',
      '--use-fake-device-for-media-stream',
    ],
  });
}

/** Next to the packages: another installation may have another version, and another user's cannot be run. */
const chromiumFolder = join(import.meta.dirname, '../../../node_modules/.cache/chromium');

/** Unpacks Chromium once. Several processes may do so at a time, but none runs what another has half written. */
async function unpackedChromium(): Promise<string> {
  if (process.platform !== 'linux' || process.arch !== 'x64') {
    throw new Error(
      'The tests bring a Chromium for Linux on x64 alone: set CHROMIUM_PATH to the program of one for this system.',
    );
  }
  const program = join(chromiumFolder, 'chromium');
  if (existsSync(program)) return program;
  mkdirSync(dirname(chromiumFolder), { recursive: true });
  const own = mkdtempSync(`${chromiumFolder}-`);
  try {
    await unpackInto(own);
    renameSync(own, chromiumFolder);
  } catch (error) {
    rmSync(own, { recursive: true });
    // Another process was first and has written the folder.
    if (!existsSync(program)) throw error;
  }
  return program;
}

/** The package unpacks into the system's folder for temporary files, which it looks up when it is called. */
function unpackInto(folder: string): Promise<string> {
  const { TMPDIR } = process.env;
  process.env.TMPDIR = folder;
  try {
    return chromium.executablePath();
  } finally {
    if (TMPDIR === undefined) delete process.env.TMPDIR;
    else process.env.TMPDIR = TMPDIR;
  }
}

type WatchedPage = {
  page: Page;
  /** Violations of the Content-Security-Policy and errors of scripts: both must stay empty. */
  troubles: string[];
  close(): Promise<void>;
};

/** A page in a profile of its own, what its present test is told of it, and whether more is left of that than can be taken away. */
type Profile = { page: Page; troubles: string[]; isChanged: () => boolean };

const desktop = { width: 1280, height: 900 };

/**
 * Profiles that tests with no options but the size of the window have left, emptied: a new one reads and compiles the portal anew, which is half of all
 * that a test of it costs.
 */
const leftProfiles = new WeakMap<Browser, Profile[]>();

/** A page with nothing of another in its profile, which records each policy violation and each uncaught error. */
export async function openPage(browser: Browser, options?: BrowserContextOptions): Promise<WatchedPage> {
  const left = leftProfiles.get(browser) ?? [];
  leftProfiles.set(browser, left);
  const { viewport, ...others } = options ?? {};
  const isShared = Object.keys(others).length === 0;
  const profile = (isShared && left.pop()) || (await newProfile(browser, options));
  const { page } = profile;
  if (isShared) await page.setViewportSize(viewport ?? desktop);
  const troubles: string[] = [];
  profile.troubles = troubles;
  // React reports errors during rendering to the console; refused requests appear there too, but are no trouble.
  page.on('console', (message) => {
    if (message.type() === 'error' && !message.text().startsWith('Failed to load resource'))
      troubles.push(message.text());
  });
  page.on('pageerror', (error) => troubles.push(`uncaught ${error.message}`));
  const requests = requestsOf(page);
  whenTestFails(async () => {
    const shown = await page.evaluate<string>('document.body.innerText').catch(String);
    process.stderr.write([page.url(), shown, 'Requests:', requests(), 'Troubles:', ...troubles, ''].join('\n'));
  });
  const close = async (): Promise<void> => {
    // Requests that a test answers itself may still be in flight, and would fail unhandled.
    await page.unrouteAll({ behavior: 'ignoreErrors' });
    if (isShared && !profile.isChanged() && (await isEmptied(page))) left.push(profile);
    else await page.context().close();
  };
  return { page, troubles, close };
}

async function newProfile(browser: Browser, options: BrowserContextOptions = {}): Promise<Profile> {
  const context = await browser.newContext({
    locale: 'en-US',
    viewport: desktop,
    // Without it, every animation frame is drawn by the processor, and a click waits until its target stands still.
    reducedMotion: 'reduce',
    ...options,
  });
  const page = await context.newPage();
  const profile: Profile = { page, troubles: [], isChanged: lastingChanges(page) };
  await context.exposeFunction('noteTrouble', (text: string) => profile.troubles.push(text));
  await context.addInitScript(`
    document.addEventListener('securitypolicyviolation', (event) =>
      window.noteTrouble('CSP ' + event.violatedDirective + ' ' + event.blockedURI + ' ' + (event.sourceFile ?? '')));
  `);
  page.setDefaultTimeout(30_000);
  return profile;
}

/** Tells whether a test has asked a page, or its profile, for what lasts beyond the document that it shows. */
function lastingChanges(page: Page): () => boolean {
  let isChanged = false;
  const watch = <Target extends object>(target: Target, ...names: (keyof Target)[]): void => {
    for (const name of names) {
      const method = target[name] as (...args: unknown[]) => unknown;
      target[name] = function (this: unknown, ...args: unknown[]) {
        isChanged = true;
        return method.apply(this, args);
      } as Target[typeof name];
    }
  };
  watch(page, 'addInitScript', 'emulateMedia');
  watch(page.clock, 'install');
  watch(page.context(), 'newPage', 'newCDPSession');
  return () => isChanged;
}

/** Takes from a profile what the portal keeps there, and from its page what a test listens to; false if something may be left. */
async function isEmptied(page: Page): Promise<boolean> {
  const context = page.context();
  try {
    if (context.pages().length > 1) return false;
    // A page without scripts of the same site: for any other, the next document would get a process that has compiled nothing.
    await page.goto(new URL('/favicon.svg', page.url()).href);
    // Once the page is left: it writes down what it keeps.
    await page.evaluate('localStorage.clear(); sessionStorage.clear()');
    await context.clearCookies();
  } catch {
    return false;
  }
  for (const event of watchedEvents) page.removeAllListeners(event);
  return true;
}

const watchedEvents = [
  'console',
  'dialog',
  'download',
  'pageerror',
  'popup',
  'request',
  'requestfailed',
  'requestfinished',
  'response',
  'websocket',
] as const;

/** What a page is left with if its test fails is told; scripts outside a test run have no such end. */
const whenTestFails = process.env.VITEST === undefined ? () => {} : onTestFailed;

/** Describes the last requests of a page: when they were made, in milliseconds since it was opened, and how they ended. */
function requestsOf(page: Page): () => string {
  const opened = performance.now();
  const elapsed = () => Math.round(performance.now() - opened);
  const requests = new Map<Request, string>();
  const note = (request: Request, end: string) =>
    requests.set(request, `${requests.get(request)}, ${end} at ${elapsed()}`);
  page.on('request', (request) => requests.set(request, `${elapsed()}: ${request.method()} ${request.url()}`));
  page.on('response', (response) => note(response.request(), String(response.status())));
  page.on('requestfinished', (request) => note(request, 'read'));
  page.on('requestfailed', (request) => note(request, request.failure()?.errorText ?? 'failed'));
  return () => [...requests.values()].slice(-60).join('\n');
}

export type Credentials = { email: string; password: string };

/** Signs in through the form, and waits for the page it leads to. */
export async function signInByForm(
  page: Page,
  url: string,
  { email, password }: Credentials,
  path = '/',
): Promise<void> {
  await page.goto(`${url}/sign-in${path === '/' ? '' : `?next=${encodeURIComponent(path)}`}`);
  await page.getByLabel('Email').fill(email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await signedIn(page);
}

/** Signs in as the form does, without rendering it, and opens a page. */
export async function signIn(page: Page, url: string, { email, password }: Credentials, path = '/'): Promise<void> {
  const login = { data: { email, password }, headers: { 'sec-fetch-site': 'same-origin' } };
  const answer = await page.request.post(`${url}/api/v1/auth/login`, login);
  if (!answer.ok()) throw new Error(`signing in answered ${answer.status()}`);
  await page.goto(url + path);
  await signedIn(page);
}

const signedIn = (page: Page): Promise<void> =>
  page
    .getByRole('navigation', { name: 'Main' })
    .or(page.getByRole('button', { name: 'Open navigation' }))
    // Hides the rest, on a page that opens with one.
    .or(page.getByRole('dialog'))
    .first()
    .waitFor();

/** The portal at an address as in a local network, which is not a secure context for browsers; returns its origin. */
export async function overPlainHttp(page: Page, url: string): Promise<string> {
  const origin = 'http://gateway.test';
  await page.route(`${origin}/**`, async (route) => {
    const { pathname, search } = new URL(route.request().url());
    await route.fulfill({ response: await route.fetch({ url: url + pathname + search }) });
  });
  return origin;
}

/** Goes to another page of the portal within the loaded one, as a link does. */
export async function goWithin(page: Page, path: string): Promise<void> {
  await page.evaluate(`history.pushState(null, '', ${JSON.stringify(path)}); dispatchEvent(new Event('popstate'))`);
}

/**
 * Clicks a button twice, like a double click slow enough for `meanwhile` to happen in between: the second click hits whatever is there by
 * then.
 */
export async function doubleClick(page: Page, button: Locator, meanwhile: () => Promise<unknown>): Promise<void> {
  const { x, y, width, height } = (await button.boundingBox())!;
  await page.mouse.move(x + width / 2, y + height / 2);
  for (const clickCount of [1, 2]) {
    await page.mouse.down({ clickCount });
    await page.mouse.up({ clickCount });
    if (clickCount === 1) await meanwhile();
  }
}

/** Whether the middle of an element is inside the window and uncovered. */
export const inSight = (element: Locator): Promise<boolean> =>
  element.evaluate((shown) => {
    const { left, top, width, height } = shown.getBoundingClientRect();
    return shown.contains(shown.ownerDocument.elementFromPoint(left + width / 2, top + height / 2));
  });

/** The dialog that is open. */
export const dialog = (page: Page): Locator => page.getByRole('dialog');

/** The row of a table that has this name in it. */
export const row = (page: Page, name: string): Locator => page.getByRole('row').filter({ hasText: name });
