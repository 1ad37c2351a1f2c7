import type { Page } from 'playwright-core';
import { expect, test } from 'vitest';
import { wavHeader } from '../../services/models/audio/wav-header.ts';
import { waitFor } from '../support/wait-for.ts';
import { seriousFindings } from './support/axe.ts';
import { goWithin, openPage, overPlainHttp, signIn, signInByForm } from './support/browser.ts';
import { users } from './support/portal.ts';
import { browser, portal, sharePortal } from './support/shared-portal.ts';

sharePortal();

/** How the answer of the sandbox begins. */
const heard = /Sandbox transcript of [\d.]+ seconds of audio/;

/** The events that a page sends over its realtime socket. */
function sentOver(page: Page): { type: string; audio?: string; url: string }[] {
  const sent: { type: string; audio?: string; url: string }[] = [];
  page.on('websocket', (socket) =>
    socket.on('framesent', ({ payload }) => sent.push({ ...JSON.parse(String(payload)), url: socket.url() })),
  );
  return sent;
}

test('a text is spoken in the chosen voice and format, heard, saved, and still there after a visit to another page', async () => {
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?model=sandbox-speech');
  const speech = page.getByRole('region', { name: 'Speech' });
  await page.getByLabel('Voice').fill('nova');
  const request = page.waitForRequest((one) => one.url().endsWith('/audio/speech'));
  await page.getByLabel('Text').fill('Hello there.');
  await page.getByLabel('Text').press('Enter');
  expect((await request).postDataJSON()).toEqual({
    model: 'sandbox-speech',
    input: 'Hello there.',
    voice: 'nova',
    response_format: 'wav',
  });
  await speech.getByText('Hello there.').waitFor();
  await expect.poll(() => page.evaluate('document.querySelector("audio").duration')).toBeGreaterThan(0.1);
  const download = page.waitForEvent('download');
  await speech.getByRole('button', { name: 'Download' }).click();
  expect((await download).suggestedFilename()).toBe('speech.wav');
  expect(await seriousFindings(page)).toEqual([]);
  await goWithin(page, '/models/sandbox-speech');
  await page.getByRole('link', { name: 'Try it' }).click();
  await speech.getByText('Hello there.').waitFor();
  expect(troubles).toEqual([]);
  await close();
});

test('a file is decoded to 24 kHz PCM, sent over the realtime socket and its transcript shown', async () => {
  const { page, troubles, close } = await openPage(browser);
  const sent = sentOver(page);
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  await page
    .getByLabel('Audio file')
    .setInputFiles({ name: 'tone.wav', mimeType: 'audio/wav', buffer: wavOf(1, 8000) });
  // The sandbox says what it heard: how long, and how loud.
  await page.getByRole('log', { name: 'Transcript' }).getByText(heard).waitFor();
  expect(sent[0]!.url).toContain('intent=transcription');
  expect(sent[0]).toMatchObject({
    type: 'session.update',
    session: {
      type: 'transcription',
      audio: {
        input: { format: { type: 'audio/pcm', rate: 24_000 }, transcription: { model: 'sandbox-transcribe' } },
      },
    },
  });
  const bytes = bytesOf(sent);
  // One second of 16-bit samples at 24 kHz, whatever the file's own rate was.
  expect(bytes).toBeGreaterThan(47_000);
  expect(bytes).toBeLessThan(49_000);
  expect(sent.at(-1)?.type).toBe('input_audio_buffer.commit');
  expect(troubles).toEqual([]);
  await close();
});

test('a file longer than an utterance may be is transcribed to its end', async () => {
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  await page
    .getByLabel('Audio file')
    .setInputFiles({ name: 'long.wav', mimeType: 'audio/wav', buffer: wavOf(130, 8000) });
  const log = page.getByRole('log', { name: 'Transcript' });
  await log.getByText('Seconds 115 to 120').waitFor();
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  expect(await page.getByRole('alert').allTextContents()).toEqual([]);
  expect(await log.textContent()).toMatch(/Seconds 115 to 120 .*Seconds 5 to 10 /);
  expect(troubles).toEqual([]);
  await close();
});

test('over plain HTTP, where browsers refuse the microphone, Speak says that it needs HTTPS', async () => {
  const { page, close } = await openPage(browser);
  await signInByForm(page, await overPlainHttp(page, portal.url), users.member, '/playground?mode=transcribe');
  await page.getByRole('button', { name: 'Speak' }).click();
  expect(await page.getByRole('alert').textContent()).toBe(
    'The microphone cannot be used. Browsers allow it only on pages served over HTTPS.',
  );
  await close();
});

test('the microphone is heard, and what was said until it stopped is shown', async () => {
  const { page, troubles, close } = await openPage(browser, { permissions: ['microphone'] });
  const sent = sentOver(page);
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.getByRole('button', { name: 'Speak' }).click();
  // Chromium's fake microphone beeps too often for the gateway to hear a pause, so the end is when it stops.
  await expect.poll(() => bytesOf(sent), { timeout: 30_000 }).toBeGreaterThan(24_000);
  await page.getByRole('button', { name: 'Stop listening' }).click();
  await page.getByRole('log', { name: 'Transcript' }).getByText(heard).waitFor();
  await page.getByRole('button', { name: 'Speak' }).waitFor();
  expect(troubles).toEqual([]);
  await close();
});

type RealtimeEvent = { type: string; item_id?: string };
const isTranscript = ({ type }: RealtimeEvent) => type.startsWith('conversation.item.input_audio_transcription.');

/** Holds back from the page the realtime events that `isHeld` names, judging by all that came so far, until `release`. */
async function holdEvents(page: Page, isHeld: (event: RealtimeEvent, come: readonly RealtimeEvent[]) => boolean) {
  const come: RealtimeEvent[] = [];
  const held: string[] = [];
  let isOver = false;
  let send = (_text: string): void => {};
  await page.routeWebSocket(/\/api\/v1\/realtime/, (socket) => {
    send = (text) => socket.send(text);
    socket.connectToServer().onMessage((message) => {
      const event = JSON.parse(String(message)) as RealtimeEvent;
      come.push(event);
      if (!isOver && isHeld(event, come)) held.push(String(message));
      else send(String(message));
    });
  });
  const release = (): void => {
    isOver = true;
    for (const text of held) send(text);
  };
  return { come, release };
}

test('the utterances of a long file are shown in the order of their sound, whichever is transcribed first', async () => {
  const { page, troubles, close } = await openPage(browser);
  const { release } = await holdEvents(page, (event, come) => {
    const first = come.find(({ type }) => type === 'input_audio_buffer.committed');
    return isTranscript(event) && event.item_id === first?.item_id;
  });
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  await page
    .getByLabel('Audio file')
    .setInputFiles({ name: 'long.wav', mimeType: 'audio/wav', buffer: wavOf(130, 8000) });
  const log = page.getByRole('log', { name: 'Transcript' });
  await log.getByText('Seconds 5 to 10').waitFor();
  release();
  await log.getByText('Seconds 115 to 120').waitFor();
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  expect(await log.textContent()).toMatch(/Seconds 115 to 120 .*Seconds 5 to 10 /);
  expect(troubles).toEqual([]);
  await close();
});

test('a file that is stopped is sent no further than the utterance that was not taken yet', async () => {
  const { page, troubles, close } = await openPage(browser);
  const sent = sentOver(page);
  const { come, release } = await holdEvents(page, ({ type }) => /committed|conversation/.test(type));
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  await page
    .getByLabel('Audio file')
    .setInputFiles({ name: 'long.wav', mimeType: 'audio/wav', buffer: wavOf(130, 8000) });
  await expect.poll(() => come.some(isTranscript)).toBe(true);
  await page.getByRole('button', { name: 'Stop' }).click();
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  expect(bytesOf(sent)).toBe(120 * 48_000);
  release();
  expect(troubles).toEqual([]);
  await close();
});

test('a microphone that heard no words before it stopped says so, instead of asking for what was just done', async () => {
  const { page, troubles, close } = await openPage(browser, { permissions: ['microphone'] });
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  // Sound without a sign of speech.
  await page.addInitScript(`
    navigator.mediaDevices.getUserMedia = async () => new MediaStreamAudioDestinationNode(new AudioContext()).stream;
  `);
  await page.reload();
  const sent = sentOver(page);
  await page.getByRole('button', { name: 'Speak' }).click();
  await expect.poll(() => sent.length, { timeout: 30_000 }).toBeGreaterThan(1);
  await page.getByRole('button', { name: 'Stop listening' }).click();
  await page.getByText('No words were heard').waitFor();
  expect(troubles).toEqual([]);
  await close();
});

test('a file that ends just after an utterance may be no longer is transcribed, though what is left is too short for another', async () => {
  const { page, troubles, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  await page
    .getByLabel('Audio file')
    .setInputFiles({ name: 'long.wav', mimeType: 'audio/wav', buffer: wavOf(120.05, 8000) });
  await page.getByRole('log', { name: 'Transcript' }).getByText('Seconds 115 to 120').waitFor();
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  expect(await page.getByRole('alert').allTextContents()).toEqual([]);
  expect(troubles).toEqual([]);
  await close();
});

test('what was said before a pause is shown, even if the microphone stops before it is transcribed', async () => {
  const { page, troubles, close } = await openPage(browser, { permissions: ['microphone'] });
  const { come, release } = await holdEvents(page, isTranscript);
  // A microphone that hears a tone, until `window.quiet()`.
  await page.addInitScript(`
    navigator.mediaDevices.getUserMedia = async () => {
      const context = new AudioContext();
      const tone = new OscillatorNode(context, { frequency: 200 });
      const volume = new GainNode(context, { gain: 0.5 });
      const heard = new MediaStreamAudioDestinationNode(context);
      tone.connect(volume).connect(heard);
      tone.start();
      window.quiet = () => { volume.gain.value = 0; };
      return heard.stream;
    };
  `);
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.getByRole('button', { name: 'Speak' }).click();
  const hasCome = (type: string) => come.some((event) => event.type === type);
  await expect.poll(() => hasCome('input_audio_buffer.speech_started'), { timeout: 30_000 }).toBe(true);
  await page.evaluate('window.quiet()');
  await expect.poll(() => hasCome('input_audio_buffer.committed'), { timeout: 30_000 }).toBe(true);
  await page.getByRole('button', { name: 'Stop listening' }).click();
  // Nothing was said since.
  await expect.poll(() => hasCome('error'), { timeout: 30_000 }).toBe(true);
  await expect.poll(() => come.some(isTranscript), { timeout: 30_000 }).toBe(true);
  release();
  await page.getByRole('log', { name: 'Transcript' }).getByText(heard).waitFor();
  await page.getByRole('button', { name: 'Speak' }).waitFor();
  expect(await page.getByRole('alert').allTextContents()).toEqual([]);
  expect(troubles).toEqual([]);
  await close();
});

/** Makes `window.grant()` answer the request for the microphone in place of a person, and keeps its tracks in `window.tracks`. */
const askForMicrophone = (page: Page) =>
  page.addInitScript(`
    const granted = Promise.withResolvers();
    const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
    window.grant = granted.resolve;
    navigator.mediaDevices.getUserMedia = async (wanted) => {
      window.tracks = [];
      await granted.promise;
      const stream = await open(wanted);
      window.tracks = stream.getTracks();
      return stream;
    };
  `);

const tracksOf = (page: Page): Promise<string[]> => page.evaluate('window.tracks?.map(({ readyState }) => readyState)');

test.each([
  ['Stop', (page: Page) => page.getByRole('button', { name: 'Stop listening' }).click()],
  ['the page was left', (page: Page) => goWithin(page, '/jobs')],
])('a microphone granted only after %s is released', async (_, stop) => {
  const { page, troubles, close } = await openPage(browser, { permissions: ['microphone'] });
  await askForMicrophone(page);
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.getByRole('button', { name: 'Speak' }).click();
  await expect.poll(() => tracksOf(page)).toEqual([]);
  await stop(page);
  await page.getByRole('button', { name: 'Stop listening' }).waitFor({ state: 'detached' });
  await page.evaluate('window.grant()');
  await expect.poll(() => tracksOf(page)).toEqual(['ended']);
  expect(await page.getByRole('alert').count()).toBe(0);
  expect(troubles).toEqual([]);
  await close();
});

test('a session that ends releases the microphone, and whoever signs in again can speak again', async () => {
  const { page, troubles, close } = await openPage(browser, { permissions: ['microphone'] });
  await askForMicrophone(page);
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.evaluate('window.grant()');
  await page.getByRole('button', { name: 'Speak' }).click();
  await expect.poll(() => tracksOf(page)).toEqual(['live']);
  await page.route(/\/api\/v1\/(?!auth\/login)/, (route) => route.fulfill({ status: 401, json: {} }));
  await page.evaluate("['offline', 'online'].forEach((type) => window.dispatchEvent(new Event(type)))");
  await page.getByText('Sign in to continue where you left off.').waitFor();
  await expect.poll(() => tracksOf(page)).toEqual(['ended']);
  await page.unrouteAll();
  await page.getByLabel('Email').fill(users.member.email);
  await page.getByRole('textbox', { name: 'Password' }).fill(users.member.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Speak' }).waitFor();
  expect(troubles).toEqual([]);
  await close();
});

test('a microphone that cannot be listened to is released', async () => {
  const { page, close } = await openPage(browser, { permissions: ['microphone'] });
  await askForMicrophone(page);
  // Playwright does not see requests of worklets.
  await page.addInitScript(`
    const { addModule } = AudioWorklet.prototype;
    AudioWorklet.prototype.addModule = function () { return addModule.call(this, '/api/v1/no-such-module'); };
  `);
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.evaluate('window.grant()');
  await page.getByRole('button', { name: 'Speak' }).click();
  await page.getByRole('alert').getByText('The microphone cannot be used.').waitFor();
  expect(await tracksOf(page)).toEqual(['ended']);
  await close();
});

test('a session that is refused for a rate limit is told which', async () => {
  const { gateway } = portal;
  const { people } = portal.world;
  const organization = `/api/v1/admin/organizations/${people.tenantId}`;
  const limit = (requests: number | null) =>
    gateway.call('PATCH', organization, people.operator.token, { rate_limits: { requests_per_minute: requests } });
  expect((await limit(1)).status).toBe(200);
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  const secret = () => gateway.call('POST', '/api/v1/realtime/client_secrets', people.member.token, {});
  await waitFor(async () => (await secret()).status === 429, { description: 'the limit to be reached' });
  await page
    .getByLabel('Audio file')
    .setInputFiles({ name: 'tone.wav', mimeType: 'audio/wav', buffer: wavOf(1, 8000) });
  await page
    .getByRole('alert')
    .getByText(/rate limit/i)
    .waitFor();
  expect((await limit(null)).status).toBe(200);
  await waitFor(async () => (await secret()).status === 200, { description: 'the limit to be gone' });
  await close();
});

test('a model that one may no longer use leaves the choice once a session is refused, and the next file goes to another', async () => {
  const { call } = portal.gateway;
  const { operator, member } = portal.world.people;
  const model = 'sandbox-transcribe-mini';
  const show = (visibility: string) => call('PATCH', `/api/v1/admin/models/${model}`, operator.token, { visibility });
  const { page, close } = await openPage(browser);
  await signIn(page, portal.url, users.member, `/playground?mode=transcribe&model=${model}`);
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  expect((await show('private')).status).toBe(200);
  await waitFor(async () => (await call('GET', `/api/v1/models/${model}`, member.token)).status === 404, {
    description: 'the model to be gone',
  });
  const file = { name: 'tone.wav', mimeType: 'audio/wav', buffer: wavOf(1, 8000) };
  await page.getByLabel('Audio file').setInputFiles(file);
  await page
    .getByRole('alert')
    .getByText(/does not exist/)
    .waitFor();
  await page
    .getByText(`You cannot use a model called ${model} here. Another one is selected.`)
    .waitFor({ timeout: 5_000 });
  await page.getByLabel('Audio file').setInputFiles(file);
  await page.getByRole('log', { name: 'Transcript' }).getByText(heard).waitFor();
  await show('public');
  await close();
});

test('a file is not called unreadable where it is the gateway that does not answer', async () => {
  const { page, close } = await openPage(browser);
  await page.clock.install();
  await signIn(page, portal.url, users.member, '/playground?mode=transcribe');
  await page.getByRole('button', { name: 'Choose a file' }).waitFor();
  await page.route('**/api/v1/auth/refresh', (route) =>
    route.fulfill({ status: 503, json: { error: { message: 'Try again soon.' } } }),
  );
  // By then the access token has expired.
  await page.clock.fastForward(31 * 60_000);
  await page
    .getByLabel('Audio file')
    .setInputFiles({ name: 'tone.wav', mimeType: 'audio/wav', buffer: wavOf(1, 8000) });
  expect(await page.getByRole('alert').filter({ hasText: 'Try again soon.' }).innerText()).toBe('Try again soon.');
  await close();
});

const bytesOf = (sent: readonly { type: string; audio?: string }[]): number =>
  sent
    .filter(({ type }) => type === 'input_audio_buffer.append')
    .reduce((sum, { audio }) => sum + Buffer.from(audio ?? '', 'base64').length, 0);

/** A tone as 16-bit mono WAV. */
function wavOf(seconds: number, rateHz: number): Buffer {
  const samples = Buffer.alloc(seconds * rateHz * 2);
  for (let at = 0; at < samples.length; at += 2) samples.writeInt16LE(Math.round(8000 * Math.sin(at / 10)), at);
  return Buffer.concat([wavHeader(samples.length, rateHz), samples]);
}
