import { readFileSync } from 'node:fs';
import type { Locator, Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { seriousFindings } from './support/axe.ts';
import { doubleClick, goWithin, openPage, signIn } from './support/browser.ts';
import { users } from './support/portal.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

test('a chat streams, keeps its history and shows times and tokens', async () => {
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground');
  const log = page.getByRole('log', { name: 'Conversation' });
  await page.getByLabel('Message', { exact: true }).fill('first <b>words</b>');
  await page.getByLabel('Message', { exact: true }).press('Enter');
  await log.getByText('first <b>words</b>', { exact: true }).waitFor();
  await log.getByText(/first token after .* in total · \d+ \+ \d+ tokens/).waitFor();
  await page.getByLabel('Message', { exact: true }).fill('second words');
  const request = page.waitForRequest((one) => one.url().endsWith('/chat/completions'));
  await page.getByRole('button', { name: 'Send' }).click();
  expect((await request).postDataJSON().messages.map(({ role }: { role: string }) => role)).toEqual([
    'user',
    'assistant',
    'user',
  ]);
  await expect.poll(() => log.getByText(/first token after/).count()).toBe(2);
  expect(troubles).toEqual([]);
  await close();
});

test('a conversation is shown as the call that Send would make, or that brought its last answer, in each language', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const code = page.getByRole('region', { name: /A call in/ });
  const view = page.getByRole('button', { name: 'View code' });
  const sent = async () => JSON.parse(/-d '(.+)'$/s.exec((await code.locator('pre').textContent()) ?? '')![1]!);
  await view.waitFor();
  expect(await view.getAttribute('aria-disabled')).toBe('true');
  await page.getByLabel('System message').fill('Be "brief".');
  await page.getByLabel('Temperature').fill('0.5');
  await page.getByLabel('Message', { exact: true }).fill('Hello');
  await view.click();
  const body = {
    model: 'sandbox-chat',
    messages: [
      { role: 'system', content: 'Be "brief".' },
      { role: 'user', content: 'Hello' },
    ],
    temperature: 0.5,
    stream: true,
  };
  expect(await sent()).toEqual(body);
  await page.getByRole('button', { name: 'Python' }).click();
  const inPython = (await code.locator('pre').textContent()) ?? '';
  expect(inPython).toContain(
    '        {"role":"system","content":"Be \\"brief\\"."},\n        {"role":"user","content":"Hello"},\n',
  );
  expect(inPython).toContain('    temperature=0.5,\n    stream=True,\n');
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('in total').waitFor();
  await view.click();
  expect(await sent()).toEqual(body);
  expect(await seriousFindings(page)).toEqual([]);
  await close();
});

test.each([
  [
    'an error frame',
    'data: {"error":{"message":"The upstream broke.","type":"server_error","param":null,"code":"upstream_error"}}\n\n',
    'The upstream broke.',
  ],
  ['an early end', '', 'The answer ended before it was complete.'],
  [
    'an event that is cut',
    'data: {"choices":[{"del\n\ndata: [DONE]\n\n',
    'The answer has a part that is not understood.',
  ],
  ['an event that is no object', 'data: null\n\ndata: [DONE]\n\n', 'The answer has a part that is not understood.'],
  ['an event that is an array', 'data: []\n\ndata: [DONE]\n\n', 'The answer has a part that is not understood.'],
])('a stream with %s keeps its text and says what happened', async (_, tail, message) => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground');
  await page.route('**/api/v1/chat/completions', (route) =>
    route.fulfill({
      contentType: 'text/event-stream',
      body: `data: {"choices":[{"index":0,"delta":{"content":"Half an ans"}}]}\n\n${tail}`,
    }),
  );
  await page.getByLabel('Message', { exact: true }).fill('Hello');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('alert').getByText(message).waitFor();
  await page.getByText('Half an ans').waitFor();
  await page.getByText('Interrupted').waitFor();
  await close();
});

test('a conversation whose model is no longer offered says that it goes on with another one', async () => {
  const { page, close } = await openPage(browser);
  const gone = new Set<string>();
  await page.route('**/api/v1/models?*', async (route) => {
    const answer = await route.fetch();
    const list = await answer.json();
    list.data = list.data.filter(({ id }: { id: string }) => !gone.has(id));
    await route.fulfill({ response: answer, json: list });
  });
  await signIn(page, portal.url, users.member, '/playground');
  const model = page.getByLabel('Model', { exact: true });
  const before = await model.inputValue();
  const images = page.getByRole('button', { name: 'Images' });
  await images.click();
  await expect.poll(() => model.inputValue()).toBe('sandbox-image');
  await page.getByRole('button', { name: 'Chat', exact: true }).click();
  await page.getByLabel('Message', { exact: true }).fill('Hello');
  gone.add(before);
  await page.evaluate(`dispatchEvent(new Event('visibilitychange'))`);
  await expect.poll(() => model.inputValue()).not.toBe(before);
  const notice = page.getByText(`You cannot use a model called ${before} here. Another one is selected.`);
  await notice.waitFor({ timeout: 5_000 });
  expect(await page.getByLabel('Message', { exact: true }).inputValue()).toBe('Hello');
  // Pictures were never drawn by it.
  await images.click();
  await notice.waitFor({ state: 'detached', timeout: 5_000 });
  await close();
});

test('of more models than a list holds one is found by a search, and kept when the search or the page is left', async () => {
  const { page, close } = await openPage(browser);
  await page.route('**/api/v1/models?*', async (route) => {
    const response = await route.fetch();
    const { data, pagination } = await response.json();
    if (new URL(route.request().url()).searchParams.has('search')) return route.fulfill({ response });
    const first = data.filter(({ id }: { id: string }) => id === 'sandbox-chat');
    await route.fulfill({
      response,
      json: { data: first, pagination: { ...pagination, total: 10_000, total_pages: 100 } },
    });
  });
  await signIn(page, portal.url, users.member, '/playground');
  const search = page.getByRole('searchbox', { name: 'Search models' });
  expect(await search.getAttribute('placeholder')).toBe('Search 10,000 models');
  const model = page.getByLabel('Model', { exact: true });
  await search.fill('mini chat');
  await model.selectOption('sandbox-chat-mini');
  await search.fill('');
  await expect
    .poll(() => model.locator('option').evaluateAll((options) => options.map((one) => one.getAttribute('value'))))
    .toEqual(['sandbox-chat-mini', 'sandbox-chat']);
  await goWithin(page, '/keys');
  await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor();
  await goWithin(page, '/playground');
  await expect.poll(() => model.inputValue()).toBe('sandbox-chat-mini');
  await close();
});

test('each mode goes on with the model that it had, and is not offered those of another while its own are read', async () => {
  const { page, close } = await openPage(browser);
  const answer = Promise.withResolvers<void>();
  await page.route(/operation=images_generations/, (route) => answer.promise.then(() => route.continue()));
  await signIn(page, portal.url, users.member, '/playground');
  const model = page.getByLabel('Model', { exact: true });
  const mode = (name: string) => page.getByRole('button', { name, exact: true }).click();
  await model.selectOption('sandbox-chat-mini');
  await goWithin(page, '/playground?model=sandbox-speech');
  await page.getByText('Nothing said yet').waitFor();
  await mode('Chat');
  await expect.poll(() => model.inputValue()).toBe('sandbox-chat-mini');
  await mode('Images');
  await page.getByRole('status', { name: 'Loading' }).waitFor({ timeout: 5_000 });
  expect(await page.getByLabel('Prompt').count()).toBe(0);
  answer.resolve();
  await page.getByText('Nothing drawn yet').waitFor();
  expect(await model.inputValue()).toBe('sandbox-image');
  await mode('Speech');
  await expect.poll(() => model.inputValue()).toBe('sandbox-speech');
  await close();
});

test('the conversation reaches down to the end of the window, and a suggestion is put into the message without being sent', async () => {
  const { page, close } = await openPage(browser, { viewport: { width: 1280, height: 900 } });
  await signIn(page, portal.url, users.owner, '/playground');
  const suggestion = page.getByRole('list', { name: 'Suggestions' }).getByRole('button').first();
  await suggestion.click();
  const message = page.getByRole('textbox', { name: 'Message', exact: true });
  expect(await message.inputValue()).toBe(await suggestion.innerText());
  expect(await message.evaluate((field) => field.matches(':focus'))).toBe(true);
  for (const height of [900, 1100]) {
    await page.setViewportSize({ width: 1280, height });
    const { y, height: own } = (await message.boundingBox())!;
    expect(height - (y + own)).toBeGreaterThan(0);
    expect(height - (y + own)).toBeLessThan(150);
    expect(await page.evaluate('document.documentElement.scrollHeight')).toBe(height);
  }
  await close();
});

test('an answer that was cut off at the maximum number of tokens says so', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const log = page.getByRole('log', { name: 'Conversation' });
  const notes = log.getByText(/in total/);
  for (const [tokens, isCut] of [
    ['3', true],
    ['', false],
  ] as const) {
    await page.getByLabel('Maximum tokens').fill(tokens);
    await page.getByLabel('Message', { exact: true }).fill('Hello');
    await page.getByRole('button', { name: 'Send' }).click();
    await notes.last().waitFor();
    expect((await notes.last().textContent())?.includes('Cut off at the maximum number of tokens')).toBe(isCut);
    await page.getByRole('button', { name: 'Clear conversation' }).click();
  }
  await close();
});

test('what a model thinks aloud, however its server calls that, is shown apart from its answer, and is not sent back', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const log = page.getByRole('log', { name: 'Conversation' });
  const spellings = [
    [{ reasoning_content: 'Let me ' }, { reasoning_content: 'think.' }, { content: 'Four.' }],
    [{ reasoning_content: 'Let me think.', reasoning: 'Let me think.' }, { content: 'Fo' }, { content: 'ur.' }],
    [
      { content: [{ type: 'thinking', thinking: [{ type: 'text', text: 'Let me think.' }] }] },
      { content: [{ type: 'text', text: 'Four.' }] },
    ],
  ];
  for (const deltas of spellings) {
    await answerWithDeltas(page, deltas);
    await say(page, 'Two and two?');
    await log.getByText('Four.', { exact: true }).waitFor();
    await log.getByText('Reasoning', { exact: true }).click();
    await log.getByText('Let me think.', { exact: true }).waitFor();
    const request = page.waitForRequest((one) => one.url().endsWith('/chat/completions'));
    await say(page, 'And three?');
    expect((await request).postDataJSON().messages.map(({ content }: { content: string }) => content)).toEqual([
      'Two and two?',
      'Four.',
      'And three?',
    ]);
    await page.getByRole('button', { name: 'Clear conversation' }).click();
  }
  await close();
});

test('an answer of which only the reasoning came before the maximum number of tokens shows that, and one that is a refusal its words', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const log = page.getByRole('log', { name: 'Conversation' });
  await answerWithDeltas(page, [{ reasoning: 'That needs some thought.' }], 'length');
  await say(page, 'Hello');
  await log.getByText(/Cut off at the maximum number of tokens/).waitFor();
  expect(await log.getByText('That needs some thought.').isVisible()).toBe(true);
  await answerWithDeltas(page, [{ content: '', refusal: 'I cannot help with that.' }]);
  await say(page, 'And this?');
  await log.getByText('I cannot help with that.').waitFor();
  await close();
});

test('what a model draws and where it has found what it says are shown, nothing is loaded from elsewhere, and the pictures are sent back', async () => {
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const log = page.getByRole('log', { name: 'Conversation' });
  const picture = { type: 'image_url', image_url: { url: onePixel } };
  const citation = (title: string) => ({ type: 'url_citation', url_citation: { url: 'https://cats.example', title } });
  await answerWithDeltas(page, [
    { images: [picture] },
    { content: [{ type: 'image_url', image_url: { url: 'https://elsewhere.example/cat.png' } }] },
    { annotations: [citation('About cats')] },
    { annotations: [citation('About cats'), { type: 'url_citation', url_citation: { url: 'javascript:alert(1)' } }] },
  ]);
  await say(page, 'Draw a cat');
  await log.getByText('in total').waitFor();
  await expect.poll(() => page.evaluate('document.querySelector("[role=log] img").naturalWidth')).toBe(1);
  expect(await log.getByRole('img').count()).toBe(1);
  const links = log.getByRole('link');
  expect(await links.evaluateAll((all) => all.map((link) => link.getAttribute('href')))).toEqual([
    'https://elsewhere.example/cat.png',
    'https://cats.example',
  ]);
  const sources = log.getByRole('list', { name: 'Sources' });
  expect(await sources.getByRole('listitem').allTextContents()).toEqual(['About cats', 'javascript:alert(1)']);
  // As Perplexity and xAI tell them.
  await answerWithFrames(page, [
    { citations: ['https://one.example', 'https://two.example'], choices: [{ delta: { content: 'So it is.[2]' } }] },
    { citations: ['https://one.example', 'https://two.example'], choices: [{ delta: {}, finish_reason: 'stop' }] },
  ]);
  const request = page.waitForRequest((one) => one.url().endsWith('/chat/completions'));
  await say(page, 'Is it so?');
  expect((await request).postDataJSON().messages.at(-1).content).toEqual([
    { type: 'text', text: 'Is it so?' },
    ...[onePixel, 'https://elsewhere.example/cat.png'].map((url) => ({ type: 'image_url', image_url: { url } })),
  ]);
  await sources.getByText('https://two.example').waitFor();
  expect(await sources.last().getByRole('listitem').count()).toBe(2);
  // Not every model that draws takes pictures.
  await page.getByLabel('Send drawn pictures back').uncheck();
  const without = page.waitForRequest((one) => one.url().endsWith('/chat/completions'));
  await page.getByRole('button', { name: 'Regenerate' }).click();
  expect((await without).postDataJSON().messages.at(-1).content).toBe('Is it so?');
  expect(await seriousFindings(page)).toEqual([]);
  expect(troubles).toEqual([]);
  await close();
});

test('a picture is drawn by what is written, and saved; a refusal is told, and a picture that is stopped leaves the last one', async () => {
  const { page, troubles, close } = await openPage(browser, { viewport: { width: 390, height: 844 } });
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-image');
  const picture = page.getByRole('region', { name: 'Picture' });
  const draw = page.getByRole('button', { name: 'Draw' });
  await page.getByLabel('Prompt').fill('A lighthouse at dusk');
  await page.getByLabel('Size').fill('64x32');
  await page.getByLabel('Prompt').press('Enter');
  await picture.getByRole('img').waitFor();
  await expect.poll(() => page.evaluate('document.querySelector("section img").naturalWidth')).toBe(64);
  const download = page.waitForEvent('download');
  await picture.getByRole('button', { name: 'Download image 1' }).click();
  expect((await download).suggestedFilename()).toBe('image-1.png');
  expect(
    readFileSync(await (await download).path())
      .subarray(1, 4)
      .toString(),
  ).toBe('PNG');
  expect(await seriousFindings(page)).toEqual([]);
  expect(
    await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth'),
  ).toBeLessThanOrEqual(0);

  await page.route('**/api/v1/images/generations', () => {});
  await draw.click();
  await picture.getByText('Drawing…').waitFor();
  await page.getByRole('button', { name: 'Stop' }).click();
  await picture.getByRole('img').waitFor();
  expect(troubles).toEqual([]);
  await page.unroute('**/api/v1/images/generations');
  await page.route('**/api/v1/images/generations', (route) => route.fulfill({ json: { data: [] } }));
  await draw.click();
  await picture.getByText('The answer has no picture.').waitFor();
  await page.unroute('**/api/v1/images/generations');
  await page.getByLabel('Size').fill('1x1');
  await draw.click();
  await page.getByRole('alert').getByText("Invalid value for 'size'").waitFor();
  await close();
});

const onePixel = `data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==`;

test('a double click on Send stops nothing', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  await page.getByLabel('Message', { exact: true }).fill('Hello');
  const log = page.getByRole('log', { name: 'Conversation' });
  const stop = page.getByRole('button', { name: 'Stop' });
  await page.route('**/api/v1/chat/completions', async (route) => {
    await clicked.promise;
    await route.continue();
  });
  const clicked = Promise.withResolvers<void>();
  await doubleClick(page, page.getByRole('button', { name: 'Send' }), () => stop.waitFor());
  clicked.resolve();
  await log.getByText(/first token after|Stopped/).waitFor();
  expect(await log.getByText('Stopped').count()).toBe(0);
  await close();
});

test('whoever stops an answer with the keyboard is back in the message field', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=test%2Fslow');
  const message = page.getByLabel('Message', { exact: true });
  await message.fill('Hello');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Space');
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  await page.keyboard.press('Space');
  await page.getByText('Stopped').waitFor();
  await expect.poll(() => message.evaluate((element) => element === element.ownerDocument.activeElement)).toBe(true);
  await close();
});

test('on a touch screen, whose keyboard has no Shift Enter, Enter adds a line to a message, and Send sends it', async () => {
  const { page, close } = await openPage(browser, {
    viewport: { width: 390, height: 844 },
    hasTouch: true,
    isMobile: true,
  });
  await signIn(page, portal.url, users.member, '/playground');
  const message = page.getByLabel('Message', { exact: true });
  await message.fill('one');
  await message.press('Enter');
  await page.keyboard.type('two');
  expect(await message.inputValue()).toBe('one\ntwo');
  expect(await page.getByText('Enter sends').count()).toBe(0);
  const request = page.waitForRequest((one) => one.url().endsWith('/chat/completions'));
  await page.getByRole('button', { name: 'Send' }).tap();
  expect((await request).postDataJSON().messages).toEqual([{ role: 'user', content: 'one\ntwo' }]);
  await close();
});

test('the last answer is asked for again, and the last message is edited, in place of what was there, which stays if that fails', async () => {
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const log = page.getByRole('log', { name: 'Conversation' });
  const message = page.getByLabel('Message', { exact: true });
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  const isFocused = (element: Locator) => element.evaluate((one) => one === one.ownerDocument.activeElement);
  const said = () => log.locator('article [translate=no]').allInnerTexts();
  let sent: { content: string }[] = [];
  page.on('request', (one) => {
    if (one.url().endsWith('/chat/completions')) sent = one.postDataJSON().messages;
  });
  await answerWithDeltas(page, [{ content: 'Maybe.' }]);
  await say(page, 'Yes or no?');
  await button('Regenerate').waitFor();
  await answerWithDeltas(page, [{ content: 'Yes.' }]);
  await button('Regenerate').focus();
  await page.keyboard.press('Enter');
  await expect.poll(said).toEqual(['Yes or no?', 'Yes.']);
  expect(sent.map(({ content }) => content)).toEqual(['Yes or no?']);
  expect(await isFocused(log)).toBe(true);

  await page.route('**/api/v1/chat/completions', (route) =>
    route.fulfill({ status: 429, json: { error: { message: 'Too many requests.', type: 'requests' } } }),
  );
  await button('Regenerate').click();
  await page.getByRole('alert').getByText('Too many requests.').waitFor();
  await expect.poll(said).toEqual(['Yes or no?', 'Yes.']);
  await message.fill('A draft');
  await button('Edit').click();
  expect(await message.inputValue()).toBe('Yes or no?');
  expect(await isFocused(message)).toBe(true);
  await message.fill('Or both?');
  // It is refused while another page is shown: what was typed meanwhile is the draft.
  const left = Promise.withResolvers<void>();
  await page.route('**/api/v1/chat/completions', (route) => left.promise.then(() => route.fallback()));
  await message.press('Enter');
  await button('Stop').waitFor();
  await message.fill('A longer draft');
  await goWithin(page, '/keys');
  await page.getByRole('heading', { name: 'API keys', level: 1 }).waitFor();
  left.resolve();
  await goWithin(page, '/playground');
  await expect.poll(() => message.inputValue()).toBe('Or both?');
  expect(await said()).toEqual(['Yes or no?', 'Yes.']);
  await message.press('Escape');
  expect(await message.inputValue()).toBe('A longer draft');

  await answerWithDeltas(page, [{ content: 'Both.' }]);
  await button('Edit').click();
  await message.fill('Or both?');
  await button('View code').click();
  expect(await page.getByRole('region', { name: /A call in/ }).textContent()).toContain(
    '[{"role":"user","content":"Or both?"}]',
  );
  await page.keyboard.press('Escape');
  await button('Send').click();
  await expect.poll(said).toEqual(['Or both?', 'Both.']);
  expect(sent.map(({ content }) => content)).toEqual(['Or both?']);
  expect(await message.inputValue()).toBe('A longer draft');
  // An answer that is stopped before its first word takes no other one's place.
  await page.route('**/api/v1/chat/completions', () => {});
  await button('Regenerate').click();
  await button('Stop').click();
  await expect.poll(said).toEqual(['Or both?', 'Both.']);
  expect(await seriousFindings(page)).toEqual([]);
  expect(troubles.filter((trouble) => !trouble.includes('429'))).toEqual([]);
  await close();
});

test('an answer that was stopped before its first word is no part of what the model is sent next', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const message = page.getByLabel('Message', { exact: true });
  const bodies: object[] = [];
  await page.route('**/api/v1/chat/completions', async (route) => {
    bodies.push(route.request().postDataJSON());
    if (bodies.length > 1) await route.continue();
  });
  await message.fill('First');
  await message.press('Enter');
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByText('Stopped').waitFor();
  await message.fill('Second');
  await message.press('Enter');
  await page.getByText(/first token after/).waitFor();
  const messages = ['First', 'Second'].map((content) => ({ role: 'user', content }));
  expect(bodies[1]).toMatchObject({ messages });
  await close();
});

test('a growing answer stays in view, unless someone is reading further up', async () => {
  const { page, close } = await openPage(browser);
  await page.addInitScript(`
    const { fetch } = window;
    const encoder = new TextEncoder();
    const answer = new ReadableStream({
      start: (controller) => {
        window.say = (content) =>
          controller.enqueue(encoder.encode('data: ' + JSON.stringify({ choices: [{ delta: { content } }] }) + '\\n\\n'));
      },
    });
    window.fetch = async (path, options) =>
      String(path).endsWith('/chat/completions') ? new Response(answer) : fetch(path, options);
  `);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  await page.getByLabel('Message', { exact: true }).fill('Hello');
  await page.getByRole('button', { name: 'Send' }).click();
  const log = page.getByRole('log', { name: 'Conversation' });
  const say = async (text: string) => {
    await page.evaluate(`say(${JSON.stringify(`${'line\n'.repeat(80)}${text}`)})`);
    await log.getByText(text).waitFor();
  };
  const scrollTo = (top: number) =>
    log.evaluate(
      (element, to) =>
        new Promise<void>((scrolled) => {
          element.addEventListener('scroll', () => scrolled(), { once: true });
          element.scrollTo({ top: to });
        }),
      top,
    );
  const below = () => log.evaluate((element) => element.scrollHeight - element.clientHeight - element.scrollTop);
  await say('first');
  await expect.poll(below).toBeLessThan(2);
  await scrollTo(0);
  await say('second');
  expect(await log.evaluate((element) => element.scrollTop)).toBe(0);
  await scrollTo(1_000_000);
  await say('third');
  await expect.poll(below).toBeLessThan(2);
  await close();
});

test('a conversation, its fields and an unsent message outlast a visit to other pages, in which an answer goes on, and a reload, until a sign-out ends all', async () => {
  const { page, close } = await openPage(browser);
  await page.addInitScript(`
    const { fetch } = window;
    const encoder = new TextEncoder();
    window.fetch = async (path, options) => {
      if (!String(path).endsWith('/chat/completions')) return fetch(path, options);
      return new Response(new ReadableStream({
        start: (controller) => {
          options.signal.addEventListener('abort', () => {
            window.ended = true;
            controller.error(options.signal.reason);
          });
          window.say = (content) =>
            controller.enqueue(encoder.encode('data: ' + JSON.stringify({ choices: [{ delta: { content } }] }) + '\\n\\n'));
        },
      }));
    };
  `);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat-mini');
  const message = page.getByLabel('Message', { exact: true });
  const open = (name: string) => page.getByRole('link', { name, exact: true }).click();
  await page.getByLabel('System message').fill('Be brief.');
  await page.getByLabel('Temperature').fill('0.5');
  await message.fill('Hello');
  await message.press('Enter');
  await message.fill('Not sent yet');
  await page.evaluate(`say('Half of it')`);
  await page.getByText('Half of it').waitFor();
  await open('Usage');
  await page.getByRole('heading', { name: 'Usage', level: 1 }).waitFor();
  await page.evaluate(`say(' and the rest')`);
  await open('Playground');
  await page.getByText('Half of it and the rest').waitFor({ timeout: 5_000 });
  expect(await message.inputValue()).toBe('Not sent yet');
  expect(await page.getByLabel('System message').inputValue()).toBe('Be brief.');
  expect(await page.getByLabel('Temperature').inputValue()).toBe('0.5');
  expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('sandbox-chat-mini');
  await page.reload();
  await page.getByText('Half of it and the rest').waitFor({ timeout: 5_000 });
  await page.getByText('Interrupted').waitFor();
  expect(await message.inputValue()).toBe('Not sent yet');
  expect(await page.getByLabel('System message').inputValue()).toBe('Be brief.');
  expect(await page.getByLabel('Model', { exact: true }).inputValue()).toBe('sandbox-chat-mini');

  await page.getByRole('button', { name: 'Transcribe' }).click();
  await page.getByText('Nothing transcribed yet').waitFor();
  await page.getByRole('button', { name: 'Chat', exact: true }).click();
  await page.getByText('Half of it and the rest').waitFor();

  await page.evaluate('window.ended = false');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  await page.getByRole('button', { name: /Mia Member/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByLabel('Password').waitFor();
  expect(await page.evaluate('window.ended')).toBe(true);
  expect(await page.evaluate('sessionStorage.length')).toBe(0);
  await page.getByLabel('Email').fill(users.member.email);
  await page.getByLabel('Password').fill(users.member.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await open('Playground');
  await page.getByText('Say something to the model').waitFor();
  expect(await message.inputValue()).toBe('');
  await close();
});

test('what was kept over a reload but cannot be shown, as by another version of the portal, is gone with the next one', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground');
  const message = page.getByLabel('Message', { exact: true });
  await message.waitFor();
  await page.evaluate(`addEventListener('visibilitychange', () => {
    const kept = JSON.parse(sessionStorage.getItem('kept'));
    kept.states['chat turns'] = [{ role: 'user', content: { of: 'another version' } }];
    sessionStorage.setItem('kept', JSON.stringify(kept));
  })`);
  await page.reload();
  await page.getByRole('alert').getByText('An error in the portal stopped it.').waitFor();
  await page.getByRole('button', { name: 'Reload' }).click();
  await message.waitFor();
  await close();
});

test('a long answer that comes in thousands of pieces is drawn at most ten times a second, and its last piece at once when it ends', async () => {
  const { page, close } = await openPage(browser);
  await page.addInitScript(`
    const { fetch } = window;
    const encoder = new TextEncoder();
    const chunk = (content) => encoder.encode('data: ' + JSON.stringify({ choices: [{ delta: { content } }] }) + '\\n\\n');
    const answer = () => {
      let left = 2000;
      return new ReadableStream({
        async pull(controller) {
          await new Promise((next) => setTimeout(next, 0));
          left -= 1;
          controller.enqueue(left > 0 ? chunk('word ' + left + (left % 10 === 0 ? '\\n\\n' : ' ')) : encoder.encode('data: [DONE]\\n\\n'));
          if (left === 0) controller.close();
        },
      });
    };
    window.fetch = async (path, options) =>
      String(path).endsWith('/chat/completions') ? new Response(answer()) : fetch(path, options);
    window.drawn = [];
    new MutationObserver((records) => {
      if (records.some(({ target }) => target.parentElement?.closest('[role=log] article'))) window.drawn.push(performance.now());
    }).observe(document, { childList: true, subtree: true, characterData: true });
  `);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  await page.getByLabel('Message', { exact: true }).fill('Hello');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText('in total').waitFor();
  await page.getByText(/word 1$/).waitFor();
  const drawn = await page.evaluate<number[]>('window.drawn');
  const seconds = (drawn.at(-1)! - drawn[0]!) / 1000;
  expect(drawn.length).toBeGreaterThan(2);
  expect(drawn.length).toBeLessThanOrEqual(10 * seconds + 3);
  await close();
});

test('an answer keeps growing while the browser translates the page and replaces its text', async () => {
  const { page, close } = await openPage(browser);
  await page.addInitScript(`
    const { fetch } = window;
    const chunk = (content) => 'data: ' + JSON.stringify({ choices: [{ delta: { content } }] }) + '\\n\\n';
    const parts = [chunk('one '), chunk('two '), chunk('three'), 'data: [DONE]\\n\\n'];
    const answer = () => new ReadableStream({
      async pull(controller) {
        // Each once the one before it has been drawn and translated.
        await new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)));
        controller.enqueue(new TextEncoder().encode(parts.shift()));
        if (parts.length === 0) controller.close();
      },
    });
    window.fetch = async (path, options) =>
      String(path).endsWith('/chat/completions') ? new Response(answer()) : fetch(path, options);
    new MutationObserver(() => {
      const texts = document.evaluate('//*[@role="log"]//text()[not(ancestor::font or ancestor::*[@translate="no"])]', document, null, 6);
      for (let at = 0; at < texts.snapshotLength; at++) {
        const font = document.createElement('font');
        font.textContent = texts.snapshotItem(at).data;
        texts.snapshotItem(at).replaceWith(font);
      }
    }).observe(document, { childList: true, subtree: true });
  `);
  await signIn(page, portal.url, users.member, '/playground');
  await page.getByLabel('Message', { exact: true }).fill('Hello');
  await page.getByRole('button', { name: 'Send' }).click();
  const log = page.getByRole('log', { name: 'Conversation' });
  await log.getByText(/first token after/).waitFor();
  await log.getByText('one two three').waitFor({ timeout: 5_000 });
  await close();
});

/** Says something, and lets the model answer with this text. */
async function answerWith(page: Page, content: string): Promise<void> {
  await answerWithDeltas(page, [{ content }]);
  await say(page, 'Hello');
  await page.getByText('in total').waitFor();
}

async function say(page: Page, text: string): Promise<void> {
  await page.getByLabel('Message', { exact: true }).fill(text);
  await page.getByRole('button', { name: 'Send' }).click();
}

/** Lets the model answer with these pieces. */
async function answerWithDeltas(page: Page, deltas: readonly object[], finish_reason = 'stop'): Promise<void> {
  const choices = [...deltas.map((delta) => ({ delta })), { delta: {}, finish_reason }];
  await answerWithFrames(
    page,
    choices.map((choice) => ({ choices: [choice] })),
  );
}

async function answerWithFrames(page: Page, frames: readonly object[]): Promise<void> {
  const body = `${frames.map((frame) => `data: ${JSON.stringify(frame)}\n\n`).join('')}data: [DONE]\n\n`;
  await page.route('**/api/v1/chat/completions', (route) => route.fulfill({ contentType: 'text/event-stream', body }));
}

test('an answer is formatted as its Markdown says, its code can be copied, and the text that the model sent can be seen', async () => {
  const { page, troubles, close } = await openPage(browser, { permissions: ['clipboard-read', 'clipboard-write'] });
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const markdown =
    '## Steps\n1. **First**\n2. `second`\n3. [x] third\n\nOne line\nand the next\n\n```js\nconst a = 1 < 2;\n```\n\n| Name | Unit |\n|-|-|\n| Power | watt |\n\nSee <https://example.com/more>.';
  await answerWith(page, markdown);
  const log = page.getByRole('log', { name: 'Conversation' });
  await log.getByRole('heading', { name: 'Steps' }).waitFor();
  expect(await log.getByRole('listitem').allTextContents()).toEqual(['First', 'second', '☑ third']);
  expect(await log.getByText('One line').innerText()).toBe('One line\nand the next');
  await log.getByRole('cell', { name: 'watt' }).waitFor();
  expect(await log.getByRole('link').getAttribute('href')).toBe('https://example.com/more');
  const code = log.getByRole('region', { name: 'Code' });
  await code.getByRole('button', { name: 'Copy' }).click();
  await code.getByRole('button', { name: 'Copied' }).waitFor();
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe('const a = 1 < 2;');
  expect(await seriousFindings(page)).toEqual([]);
  await page.getByLabel('Format answers').uncheck();
  await log.getByText(markdown, { exact: true }).waitFor();
  expect(troubles).toEqual([]);
  await close();
});

test('nothing in an answer becomes a part of the page: HTML stays text, nothing is loaded, and no link runs a script', async () => {
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const loaded: string[] = [];
  page.on('request', (request) => loaded.push(request.url()));
  const html = '<img src="https://evil.example/a.png" onerror="alert(1)"><b>bold</b> <script>alert(2)</script>';
  const lines = [
    html,
    `Inline ${html}`,
    '![a chart](https://evil.example/b.png)',
    '[script](javascript:alert(3)) [data](data:text/html,<script>alert(4)</script>) [here](/keys)',
    '# Main\n\n# main\n\nfoot[^1]\n\n[^1]: note',
    '<form action="https://evil.example"><input name="password"></form>',
    '<style>body { display: none }</style>',
    '<!-- a comment -->',
  ];
  await answerWith(page, `---\nfront: matter\n---\n\n${lines.join('\n\n')}`);
  const log = page.getByRole('log', { name: 'Conversation' });
  await log.getByText('a chart').waitFor();
  const answer = log.locator('article').last().locator('[translate=no]');
  expect(await answer.innerText()).toContain(html);
  for (const text of ['<style>body { display: none }</style>', '<!-- a comment -->', 'front: matter'])
    expect(await answer.innerText()).toContain(text);
  expect(await answer.locator('img, b, script, form, input, style, iframe, [id], [style]').count()).toBe(0);
  const links = await answer.locator('a').evaluateAll((all) => all.map((link) => link.getAttribute('href')!));
  expect(links).toContain('https://evil.example/b.png');
  expect(links.filter((href) => !href.startsWith('https://evil.example'))).toEqual([]);
  expect(loaded.filter((url) => !url.startsWith(portal.url))).toEqual([]);
  expect(troubles).toEqual([]);
  await close();
});

test('an answer that is nested deeper than a browser can draw is shown as its text, and the one asked for in its place as usual', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const content = '> '.repeat(400) + '*a _b '.repeat(2600) + '_ *'.repeat(2600);
  await answerWithDeltas(page, [{ content }]);
  await say(page, 'Hello');
  const log = page.getByRole('log', { name: 'Conversation' });
  await log.getByText('> *a _b *a _b').waitFor({ timeout: 10_000 });
  await answerWithDeltas(page, [{ content: 'A *short* one' }]);
  await page.getByRole('button', { name: 'Regenerate' }).click();
  await log.getByText('A short one').waitFor({ timeout: 10_000 });
  await close();
});

test('each paragraph of a message and of an answer goes in the direction of its language', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const events = [{ choices: [{ delta: { content: 'In English.\nمرحبا بالعالم!' } }] }, '[DONE]'];
  const body = events.map((event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`).join('');
  await page.route('**/api/v1/chat/completions', (route) => route.fulfill({ contentType: 'text/event-stream', body }));
  const message = page.getByLabel('Message', { exact: true });
  await message.fill('שלום!');
  expect(await message.evaluate((field) => field.ownerDocument.defaultView!.getComputedStyle(field).unicodeBidi)).toBe(
    'plaintext',
  );
  await page.getByRole('button', { name: 'Send' }).click();
  const answer = page.getByText('In English.');
  await page.getByText('in total').waitFor();
  // The exclamation mark, which has no direction of its own, ends its sentence: on the left of it.
  const leftOf = (letter: string) =>
    answer.evaluate((shown, wanted) => {
      const range = shown.ownerDocument.createRange();
      const at = shown.firstChild!.textContent!.indexOf(wanted);
      range.setStart(shown.firstChild!, at);
      range.setEnd(shown.firstChild!, at + 1);
      return range.getBoundingClientRect().left;
    }, letter);
  expect(await leftOf('!')).toBeLessThan(await leftOf('م'));
  expect(await leftOf('I')).toBeLessThan(await leftOf('.'));
  await close();
});

test('lists, quotations and tables of an answer go in the direction of their language, and code in them from left to right', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  await answerWith(
    page,
    'In English:\n\n- one\n\n---\n\n- פריט `a = 1;` ראשון\n\n  ```js\n  const a = 1;\n  ```\n\n> ציטוט\n\n| שם | ערך |\n|---|---|\n| אחד | 1 |',
  );
  const log = page.getByRole('log', { name: 'Conversation' });
  const directions = (selector: string) =>
    log
      .locator(selector)
      .evaluateAll((all) => all.map((one) => one.ownerDocument.defaultView!.getComputedStyle(one).direction));
  expect(await directions('ul')).toEqual(['ltr', 'rtl']);
  expect(await directions('blockquote, table')).toEqual(['rtl', 'rtl']);
  expect(await directions('code, section')).toEqual(['ltr', 'ltr']);
  // A semicolon has no direction of its own: it ends its statement, on the right of it.
  const code = log.getByText('a = 1;', { exact: true });
  const [first, last] = await code.evaluate((shown) =>
    [0, 5].map((at) => {
      const range = shown.ownerDocument.createRange();
      range.setStart(shown.firstChild!, at);
      range.setEnd(shown.firstChild!, at + 1);
      return range.getBoundingClientRect().left;
    }),
  );
  expect(first).toBeLessThan(last!);
  await close();
});

test.each([
  ['an object', '{\n  "path": "C:\\\\temp",\n  "said": "\\"*hi*\\"",\n  "__init__": [\n    1\n  ]\n}'],
  ['a list', '[\n  {\n    "name": "*a*"\n  }\n]'],
  ['what was cut off', '{"name": "*a* and \\"b'],
])('an answer in JSON is shown as it is, with every backslash and its indentation: %s', async (_, json) => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  await answerWith(page, json);
  const shown = page.getByRole('log', { name: 'Conversation' }).getByRole('region', { name: 'JSON' }).locator('pre');
  await shown.waitFor({ timeout: 5_000 });
  expect(await shown.innerText()).toBe(json);
  await close();
});

test('a formula in an answer is shown with every sign that the model sent', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const block = '\\[\n\\mathbf{x}_{i} * y_{j} \\\\\n- \\|z\\|_2\n\\]';
  const inline = '\\( \\{ a*b*c \\} \\)';
  await answerWith(page, `The norm of ${inline} is:\n\n${block}\n\nThat is all.`);
  const log = page.getByRole('log', { name: 'Conversation' });
  expect(await log.getByText('The norm of').innerText()).toBe(`The norm of ${inline} is:`);
  expect(await log.getByRole('region', { name: 'Code' }).locator('pre').innerText()).toBe(block);
  await close();
});

test('a cleared conversation takes the error that ended it along', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  await page.route('**/api/v1/chat/completions', (route) =>
    route.fulfill({
      contentType: 'text/event-stream',
      body: 'data: {"choices":[{"index":0,"delta":{"content":"Half an ans"}}]}\n\n',
    }),
  );
  await page.getByLabel('Message', { exact: true }).fill('Hello');
  await page.getByRole('button', { name: 'Send' }).click();
  const error = page.getByRole('alert').getByText('The answer ended before it was complete.');
  await error.waitFor();
  await page.getByRole('button', { name: 'Clear conversation' }).click();
  await page.getByText('Say something to the model').waitFor();
  expect(await error.count()).toBe(0);
  await close();
});

test('a stream that breaks before its first words says so, and returns the message', async () => {
  const { page, close } = await openPage(browser);
  await page.addInitScript(`
    const { fetch } = window;
    const broken = () => new ReadableStream({ pull: (controller) => controller.error(new TypeError('network error')) });
    window.fetch = async (path, options) =>
      String(path).endsWith('/chat/completions') ? new Response(broken()) : fetch(path, options);
  `);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  await page.getByLabel('Message', { exact: true }).fill('Hello');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByRole('alert').getByText('The answer ended before it was complete.').waitFor();
  expect(await page.getByLabel('Message', { exact: true }).inputValue()).toBe('Hello');
  await close();
});

test('a refused message is returned without what was typed meanwhile being lost, and a screen reader waits for the end of an answer', async () => {
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat');
  const log = page.getByRole('log', { name: 'Conversation' });
  const message = page.getByLabel('Message', { exact: true });
  const refuse = Promise.withResolvers<void>();
  await page.route('**/api/v1/chat/completions', async (route) => {
    await refuse.promise;
    await route.fulfill({ status: 429, json: { error: { message: 'Too many requests.', type: 'requests' } } });
  });
  await message.fill('The first one');
  await message.press('Enter');
  await page.getByRole('button', { name: 'Stop' }).waitFor();
  expect(await log.getAttribute('aria-busy')).toBe('true');
  await message.fill('and the next');
  refuse.resolve();
  await page.getByRole('alert').getByText('Too many requests.').waitFor();
  expect(await message.inputValue()).toBe('The first one\n\nand the next');
  expect(await log.getAttribute('aria-busy')).toBe('false');
  await close();
});

test('a model that retires between two messages leaves the choice once one is refused, and the conversation goes on with another', async () => {
  const { page, close } = await openPage(browser);
  const { call } = portal.gateway;
  const { token } = portal.world.people.operator;
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-chat-mini');
  const log = page.getByRole('log', { name: 'Conversation' });
  const say = async (text: string) => {
    await page.getByLabel('Message', { exact: true }).fill(text);
    await page.getByLabel('Message', { exact: true }).press('Enter');
  };
  await say('Hello');
  await log.getByText(/in total/).waitFor();
  const announced = await call('POST', '/api/v1/admin/retirements', token, {
    model: 'sandbox-chat-mini',
    sunset_at: new Date(Date.now() + 1_000).toISOString(),
    replacement_model_name: 'sandbox-chat',
  });
  expect(announced.status, announced.text).toBe(201);
  await expect
    .poll(async () => (await call('GET', '/api/v1/models/sandbox-chat-mini', token)).status, { timeout: 10_000 })
    .toBe(410);
  await say('And now?');
  await page
    .getByRole('alert')
    .getByText(/was retired on .* Use `sandbox-chat` instead/)
    .waitFor();
  await page.getByText('You cannot use a model called sandbox-chat-mini here. Another one is selected.').waitFor();
  expect(await page.getByLabel('Message', { exact: true }).inputValue()).toBe('And now?');
  await page.getByRole('button', { name: 'Send' }).click();
  await expect.poll(() => log.getByText(/in total/).count()).toBe(2);
  await close();
});
