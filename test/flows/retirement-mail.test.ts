import { afterAll, afterEach, beforeEach, describe, expect, test } from 'vitest';
import { startTestGateway, type TestGateway } from '../support/gateway.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { rowsOf } from '../support/postgres.ts';
import { waitFor } from '../support/wait-for.ts';

const dayMs = 86_400_000;

/** When sandbox-chat and sandbox-embed are used: today, since uses of a model are dated by their ids. */
const usedMs = Math.floor(Date.now() / dayMs) * dayMs;
/** Of the test; all times are days from here. */
let startMs: number;
const day = (number: number): string => new Date(startMs + number * dayMs).toISOString();
const date = (number: number): string => day(number).slice(0, 10);

type Mail = { id: string; kind: string; to: string; subject: string; text: string; status: string };

let gateway: TestGateway;
let isStarted = false;
let clock: ManualClock;
let operator: string;
/** What the test retires, and the key that allows it. */
let model: string;
let keyId: string | undefined;
let models = 0;

/** A gateway whose owner has just used two models. */
async function start(): Promise<void> {
  clock = new ManualClock(usedMs);
  gateway = await startTestGateway({ clock });
  isStarted = true;
  keyId = undefined;
  await signIn();
  const { key } = await gateway.createKey(operator);
  const openai = gateway.openai(key);
  await openai.chat.completions.create({ model: 'sandbox-chat', messages: [{ role: 'user', content: 'Hi' }] });
  await openai.embeddings.create({ model: 'sandbox-embed', input: 'Hi' });
  await waitFor(async () => (await gateway.call('GET', '/api/v1/usage/history', operator)).json.data?.length === 2, {
    description: 'the uses of the models',
  });
}
async function end(): Promise<void> {
  isStarted = false;
  await gateway?.[Symbol.asyncDispose]();
}
beforeEach(async () => {
  if (isStarted) await at(new Date((Math.floor(clock.now() / dayMs) + 1) * dayMs).toISOString());
  else await start();
  startMs = clock.now();
  model = `model-${String.fromCharCode(97 + models++)}`;
  await admin('POST', '/models', { name: model, operations: ['embeddings'], visibility: 'public' });
  if (keyId !== undefined) await gateway.call('DELETE', `/api/v1/api-keys/${keyId}`, operator);
  keyId = (await gateway.createKey(operator, { model_allowlist: [model] })).id;
});
afterEach(async ({ task }) => {
  // Its clock does not go back, so whatever failed gets another gateway.
  if (task.result?.state === 'fail') return end();
  await onDatabase(`
    drop function if exists auth.fail, models.fail cascade;
    drop sequence if exists models.failures;
    update auth.users set is_active = false where email <> 'owner@example.com'`);
});
afterAll(end);

/** Sessions expire in between, since the clock moves by weeks. */
const signIn = async (): Promise<void> => {
  operator = await gateway.login();
};
const admin = (method: string, path: string, body?: unknown) =>
  gateway.call(method, `/api/v1/admin${path}`, operator, body);
const announce = async (fields: Record<string, unknown>) => {
  const answer = await admin('POST', '/retirements', {
    model,
    replacement_model_name: 'sandbox-transcribe',
    ...fields,
  });
  expect(answer.status, answer.text).toBe(201);
};
const move = async (sunsetAt: string) => {
  const answer = await admin('PATCH', `/retirements/${model}`, { sunset_at: sunsetAt });
  expect(answer.status, answer.text).toBe(200);
};
const mails = async (): Promise<Mail[]> => {
  const answer = await admin('GET', '/mail?kind=model_retirement&limit=100');
  return answer.json.data.toReversed();
};
const subjects = async () => (await mails()).map(({ subject }) => subject);
/** Waits until the worker has made one more round, so that what it leaves undone can be checked. */
async function aRoundLater(): Promise<void> {
  const witness = `witness-${clock.now()}-${Math.random()}`;
  await admin('POST', '/models', { name: witness, operations: ['embeddings'] });
  const { tenant_id } = (await gateway.call('GET', '/api/v1/profile', operator)).json;
  await admin('POST', '/grants', { model: witness, tenant_id });
  const key = await gateway.createKey(operator, { name: 'allows', model_allowlist: [witness] });
  await admin('POST', '/retirements', {
    model: witness,
    sunset_at: new Date(clock.now() + 400 * dayMs).toISOString(),
    retirement_note: 'A witness.',
  });
  await waitFor(async () => (await subjects()).some((subject) => subject.startsWith(witness)), {
    description: 'the mail of the witness',
  });
  await gateway.call('DELETE', `/api/v1/api-keys/${key.id}`, operator);
}
const onDatabase = (statement: string) => rowsOf(gateway.env.databaseUrl!, statement);
/** A mail server that accepts the mails of the outbox. */
async function take(which = 'true'): Promise<void> {
  await onDatabase(`update auth.mails set status = 2, sent_at = now() where kind = 'model_retirement' and ${which}`);
}
/** More people of the owner's organization. */
async function addUsers(...emails: string[]): Promise<void> {
  for (const email of emails) {
    await onDatabase(`
      insert into auth.users (id, tenant_id, email, first_name, last_name, role, is_active, password_hash, tokens_not_before, created_at)
      select gen_random_uuid(), tenant_id, '${email}', '', '', 1, true, 'none', now(), now() from auth.users
      where email = 'owner@example.com'`);
  }
}
/** Who was mailed what about the model, in any order. */
const mailedAre = (expected: string[]) =>
  waitFor(
    async () => {
      const about = (await mails()).filter(({ subject }) => subject.includes(model));
      const mailed = about.map(({ to, subject }) => `${to.split('@')[0]}: ${subject}`);
      return JSON.stringify(mailed.toSorted()) === JSON.stringify(expected.toSorted());
    },
    { description: `the mails ${expected.join(' | ')}` },
  );
const ownAre = (expected: string[]) =>
  waitFor(async () => JSON.stringify(await own()) === JSON.stringify(expected), {
    description: `the mails ${expected.join(' | ')}`,
  });
/** Those of the model, the last first. */
const reminders = async (): Promise<string[]> => {
  const { json } = await admin('GET', `/reminders?model=${model}`);
  return json.data.map(({ point, status }: Record<string, string>) => `${point} ${status}`);
};
const own = async () => (await subjects()).filter((subject) => subject.includes(model));
const at = async (iso: string, ms = 0) => {
  clock.set(Date.parse(iso) + ms);
  await signIn();
};

describe('mails about a retirement', () => {
  test('are sent at five points, each once', async () => {
    model = 'sandbox-chat';
    await announce({ sunset_at: day(59.5) });
    const expected = [`${model} retires on ${date(59)}`];
    await ownAre(expected);
    for (const left of [30, 7, 1]) {
      await at(day(59.5 - left), -1);
      await aRoundLater();
      expect(await own()).toEqual(expected);
      await at(day(59.5 - left));
      expected.push(`Reminder: ${model} retires on ${date(59)}`);
      await ownAre(expected);
    }
    await at(day(59.5));
    expected.push(`${model} is retired`);
    await ownAre(expected);
    await at(day(61));
    await aRoundLater();
    expect(await own()).toEqual(expected);

    const [first] = await mails();
    expect(first!.to).toBe('owner@example.com');
    expect(first!.text).toContain('sandbox-transcribe');
    expect(first!.text).toContain(`${date(59)} at 12:00 UTC`);
    expect(first!.text).toContain('http://gateway.test/retirements/sandbox-chat');
    const { json } = await admin('GET', `/retirements?model=${model}`);
    expect(json.data[0]).toMatchObject({ reminders_sent: 5, reminders_pending: 0 });
    const reminders = await admin('GET', `/reminders?model=${model}`);
    expect(reminders.json.data.map(({ point }: { point: string }) => point)).toEqual([
      'retirement_day',
      'one_day',
      'seven_days',
      'thirty_days',
      'announcement',
    ]);
  });

  test('reach nobody who neither used the model in the last 90 days nor allows it on a key', async () => {
    const retire = (model: string) =>
      admin('POST', '/retirements', { model, sunset_at: day(300), retirement_note: 'None.' });
    await retire('sandbox-speech');
    await at(new Date(usedMs + 91 * dayMs).toISOString());
    await retire('sandbox-embed');
    await aRoundLater();
    expect((await subjects()).filter((subject) => /^sandbox-(speech|embed)/.test(subject))).toEqual([]);
  });

  test('wait for a date: an announcement without one sends none', async () => {
    await announce({});
    await aRoundLater();
    expect(await own()).toEqual([]);
    await move(day(20));
    await ownAre([`${model} retires on ${date(20)}`]);
  });

  test('skip a point that has passed when the date is set', async () => {
    await announce({ sunset_at: day(4) });
    await ownAre([`${model} retires on ${date(4)}`]);
    await at(day(3));
    await ownAre([`${model} retires on ${date(4)}`, `Reminder: ${model} retires on ${date(4)}`]);
    // Operators see when users are told, and that the two points were skipped.
    const points = async () => (await admin('GET', `/retirements?model=${model}`)).json.data[0].reminder_points;
    const when = { due_at: expect.any(String), done_at: expect.any(String) };
    await expect.poll(points).toEqual([
      { point: 'announcement', ...when },
      { point: 'thirty_days', due_at: null, done_at: null },
      { point: 'seven_days', due_at: null, done_at: null },
      { point: 'one_day', ...when, due_at: day(3) },
      { point: 'retirement_day', due_at: day(4), done_at: null },
    ]);
  });

  test('that an outage has made untrue are not sent afterwards, and the others are', async () => {
    await announce({ sunset_at: day(31) });
    await ownAre([`${model} retires on ${date(31)}`]);
    await at(day(32));
    await ownAre([`${model} retires on ${date(31)}`, `${model} is retired`]);
  });

  test('follow a date that moves: what was sent is not repeated, and nothing says the old date any more', async () => {
    await announce({ sunset_at: day(31) });
    await ownAre([`${model} retires on ${date(31)}`]);
    await take();
    await at(day(1));
    await ownAre([`${model} retires on ${date(31)}`, `Reminder: ${model} retires on ${date(31)}`]);
    await take();
    const sent = await own();
    await move(day(80));
    for (const number of [24, 30, 31, 50]) {
      await at(day(number));
      await aRoundLater();
      expect(await own()).toEqual(sent);
    }
    await at(day(73));
    await ownAre([...sent, `Reminder: ${model} retires on ${date(80)}`]);
  });

  test('still in the outbox when the date moves are withdrawn and follow it', async () => {
    await announce({ sunset_at: day(31) });
    await at(day(1));
    await ownAre([`${model} retires on ${date(31)}`, `Reminder: ${model} retires on ${date(31)}`]);
    await move(day(80));
    // Nobody has received the announcement yet, so it goes out with the new date; the thirty days' reminder is still to come.
    await ownAre([`${model} retires on ${date(80)}`]);
    await at(day(50));
    await ownAre([`${model} retires on ${date(80)}`, `Reminder: ${model} retires on ${date(80)}`]);
  });

  test('reach everyone even if a withdrawal of mails cannot be recorded', async () => {
    await announce({ sunset_at: day(31) });
    await ownAre([`${model} retires on ${date(31)}`]);
    // Fails at the commit, after everything was sent to Auth; a sequence also counts what is rolled back.
    await onDatabase(`
      create sequence models.failures;
      grant usage on sequence models.failures to public;
      create function models.fail() returns trigger language plpgsql as $$
        begin perform nextval('models.failures'); raise 'not now'; end $$;
      create constraint trigger fail after delete on models.reminders deferrable initially deferred
        for each row execute function models.fail()`);
    await move(day(80));
    await waitFor(async () => (await onDatabase('select from models.failures where is_called')).length > 0, {
      description: 'a failure',
    });
    await onDatabase('drop trigger fail on models.reminders');
    await ownAre([`${model} retires on ${date(80)}`]);
  });

  test('end with a withdrawal: those in the outbox are taken back, and everyone who was sent one hears once that the model stays', async () => {
    await addUsers('queued@example.com', 'gone@example.com', 'told@example.com');
    await announce({ sunset_at: day(31) });
    await mailedAre(['gone', 'owner', 'queued', 'told'].map((name) => `${name}: ${model} retires on ${date(31)}`));
    await take("to_email <> 'queued@example.com'");
    await onDatabase("update auth.users set is_active = false where email = 'gone@example.com'");
    await at(day(1));
    await waitFor(async () => (await own()).length === 7, { description: 'the reminders' });
    expect((await admin('DELETE', `/retirements/${model}`)).status).toBe(204);
    await mailedAre([
      ...['gone', 'owner', 'told'].map((name) => `${name}: ${model} retires on ${date(31)}`),
      ...['owner', 'told'].map((name) => `${name}: ${model} stays: its retirement was withdrawn`),
    ]);
    const last = (await mails()).at(-1)!;
    expect(last.text).toContain(`The retirement of the model ${model} was withdrawn`);
    expect(last.text).toContain(`http://gateway.test/models/${model}\n`);
    expect((await admin('DELETE', `/retirements/${model}`)).status).toBe(204);
    const before = await own();
    await at(day(31));
    await aRoundLater();
    expect(await own()).toEqual(before);
    const points = new Set(await reminders());
    expect([...points].sort()).toEqual([
      'announcement cancelled',
      'announcement sent',
      'thirty_days cancelled',
      'withdrawal sent',
    ]);
  });

  test('do not say that a model stays whose retirement is announced anew, or which is deleted; whoever was told hears it once it does', async () => {
    await announce({ sunset_at: day(31) });
    const sent = [`${model} retires on ${date(31)}`];
    await ownAre(sent);
    await take();
    const stays = `${model} stays: its retirement was withdrawn`;
    expect((await admin('DELETE', `/retirements/${model}`)).status).toBe(204);
    await ownAre([...sent, stays]);
    // The mail server has not taken it, so nobody has read it.
    await announce({});
    await ownAre(sent);
    await aRoundLater();
    await ownAre(sent);
    expect((await admin('DELETE', `/retirements/${model}`)).status).toBe(204);
    await ownAre([...sent, stays]);
    expect((await admin('DELETE', `/models/${model}`)).status).toBe(204);
    await ownAre(sent);
  });

  test('are counted as sent after a withdrawal only once it is known which were', async () => {
    await announce({ sunset_at: day(31) });
    await ownAre([`${model} retires on ${date(31)}`]);
    const counts = async () => {
      const { reminders_sent, reminders_pending } = (await admin('GET', `/retirements?model=${model}`)).json.data[0];
      return [reminders_sent, reminders_pending];
    };
    expect(await counts()).toEqual([1, 0]);
    // Auth does not answer meanwhile.
    await onDatabase(`
      create function auth.fail() returns trigger language plpgsql as $$ begin raise 'not now'; end $$;
      create trigger fail before update on auth.mails for each row execute function auth.fail()`);
    expect((await admin('DELETE', `/retirements/${model}`)).status).toBe(204);
    expect(await counts()).toEqual([null, 0]);
    await onDatabase('drop trigger fail on auth.mails');
    await waitFor(async () => JSON.stringify(await counts()) === '[0,0]', { description: 'the count' });
  });

  test('that could not be handed over are planned anew when the date moves, and cancelled by a withdrawal', async () => {
    await announce({ sunset_at: day(31) });
    await ownAre([`${model} retires on ${date(31)}`]);
    await take();
    await onDatabase(`
      create function auth.fail() returns trigger language plpgsql as $$ begin raise 'not now'; end $$;
      create trigger fail before insert on auth.mails for each row execute function auth.fail()`);
    const remindersAre = (expected: string[]) =>
      waitFor(async () => JSON.stringify(await reminders()) === JSON.stringify(expected), {
        description: `the reminders ${expected.join(' | ')}`,
      });
    await at(day(1));
    await remindersAre(['thirty_days pending', 'announcement sent']);
    await move(day(80));
    expect(await reminders()).toEqual(['announcement sent']);
    await at(day(50));
    await remindersAre(['thirty_days pending', 'announcement sent']);
    expect((await admin('DELETE', `/retirements/${model}`)).status).toBe(204);
    await remindersAre(['withdrawal pending', 'thirty_days cancelled', 'announcement sent']);
  });

  test('about a private model lead to its page in the portal, since the page of retirements knows only public ones', async () => {
    await admin('POST', '/models', { name: 'acme/hidden', operations: ['embeddings'], visibility: 'private' });
    const { tenant_id } = (await gateway.call('GET', '/api/v1/profile', operator)).json;
    await admin('POST', '/grants', { model: 'acme/hidden', tenant_id });
    await gateway.createKey(operator, { model_allowlist: ['acme/hidden'] });
    await admin('POST', '/retirements', { model: 'acme/hidden', sunset_at: day(40), retirement_note: 'None.' });
    const mailed = () => mails().then((all) => all.find(({ subject }) => subject.startsWith('acme/hidden')));
    await waitFor(async () => (await mailed()) !== undefined, { description: 'the mail of the private model' });
    expect((await mailed())!.text).toContain('http://gateway.test/models/acme%2Fhidden\n');
  });

  test('about a private model do not reach organizations that lost access, though a key of theirs names it', async () => {
    await admin('POST', '/models', { name: 'acme/secret', operations: ['embeddings'], visibility: 'private' });
    const { tenant_id } = (await gateway.call('GET', '/api/v1/profile', operator)).json;
    await admin('POST', '/grants', { model: 'acme/secret', tenant_id });
    await gateway.createKey(operator, { model_allowlist: ['acme/secret'] });
    expect((await admin('DELETE', `/grants?model=acme/secret&tenant_id=${tenant_id}`)).status).toBe(204);
    await admin('POST', '/retirements', { model: 'acme/secret', sunset_at: day(40), retirement_note: 'None.' });
    await aRoundLater();
    expect((await subjects()).filter((subject) => subject.startsWith('acme/secret'))).toEqual([]);
  });
});
