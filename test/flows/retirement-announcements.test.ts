import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  dayMs,
  iso,
  linksOf,
  pageOf,
  type RetirementBench,
  startMs,
  startRetirementBench,
  sunsetMs,
  surfaces,
} from '../support/retirements.ts';
import { waitFor } from '../support/wait-for.ts';

let bench: RetirementBench;
beforeAll(async () => {
  bench = await startRetirementBench();
});
afterAll(() => bench?.[Symbol.asyncDispose]());
beforeEach(() => bench.refillRateLimits());

describe('an announcement', () => {
  test.each([
    [{ sunset_at: iso(startMs - 1) }, 'sunset_at'],
    [{ sunset_at: iso(startMs) }, 'sunset_at'],
    [{ sunset_at: '1970-01-01' }, 'sunset_at'],
    [{ sunset_at: 'soon' }, 'sunset_at'],
    [{ replacement_model_name: null }, 'replacement_model_name'],
    [{ replacement_model_name: 'sandbox-chat', retirement_note: 'Both.' }, 'retirement_note'],
    [{ replacement_model_name: 'acme/no-such-model' }, 'replacement_model_name'],
    [{ retirement_note: '' }, 'retirement_note'],
    [{ retirement_note: '   ' }, 'retirement_note'],
    [{ retirement_note: 'a\r\nLink: <https://evil.example>' }, 'retirement_note'],
    [{ retirement_note: 'a\u0085b' }, 'retirement_note'],
    [{ retirement_note: 'a\u2028b' }, 'retirement_note'],
    [{ retirement_note: 'a\u202eb' }, 'retirement_note'],
    [{ retirement_note: 'x'.repeat(1001) }, 'retirement_note'],
    [{ deprecated_at: iso(startMs - dayMs) }, 'deprecated_at'],
  ])('with %j is refused naming the field, and nothing is announced', async (fields, param) => {
    const model = await bench.createModel();
    const answer = await bench.announce(model, fields);
    expect(answer.status, answer.text).toBe(400);
    expect(answer.json.error.param).toBe(param);
    expect((await bench.admin('GET', `/models/${encodeURIComponent(model)}`)).json.deprecated_at).toBeNull();
    expect((await bench.admin('GET', `/retirements?model=${encodeURIComponent(model)}`)).json.data).toEqual([]);
  });

  test('cannot name itself, a retiring or a retired model as the successor', async () => {
    const model = await bench.createModel();
    const retiring = await bench.createModel();
    await bench.announced(retiring, { sunset_at: iso(sunsetMs) });
    for (const successor of [model, retiring]) {
      const answer = await bench.announce(model, { replacement_model_name: successor });
      expect(answer).toMatchObject({ status: 400, json: { error: { param: 'replacement_model_name' } } });
    }
    await bench.at(sunsetMs, async () => {
      await bench.signIn();
      const answer = await bench.announce(model, { replacement_model_name: retiring });
      expect(answer).toMatchObject({ status: 400, json: { error: { param: 'replacement_model_name' } } });
    });
    await bench.signIn();
  });

  test('is made once: a second is a conflict, and deprecated_at never moves', async () => {
    const model = await bench.createModel();
    await bench.announced(model);
    await bench.at(startMs + dayMs, async () => {
      await bench.signIn();
      expect((await bench.announce(model)).status).toBe(409);
      const moved = await bench.admin('PATCH', `/retirements/${encodeURIComponent(model)}`, {
        sunset_at: iso(sunsetMs),
      });
      expect(moved.json).toMatchObject({ deprecated_at: iso(startMs), sunset_at: iso(sunsetMs) });
      const before = await bench.admin('PATCH', `/retirements/${encodeURIComponent(model)}`, {
        sunset_at: iso(startMs - 1),
      });
      expect(before).toMatchObject({ status: 400, json: { error: { param: 'sunset_at' } } });
      const past = await bench.admin('PATCH', `/retirements/${encodeURIComponent(model)}`, {
        sunset_at: iso(startMs + 1),
      });
      expect(past).toMatchObject({ status: 400, json: { error: { param: 'sunset_at' } } });
      const later = await bench.admin('PATCH', `/retirements/${encodeURIComponent(model)}`, {
        sunset_at: iso(sunsetMs + 1),
      });
      expect(later.json).toMatchObject({ deprecated_at: iso(startMs), sunset_at: iso(sunsetMs + 1) });
    });
    await bench.signIn();
  });

  test('that is withdrawn leaves no trace in headers or listing, and may be made again', async () => {
    const model = await bench.createModel();
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    // Its users were told until when it serves.
    expect((await bench.admin('DELETE', `/models/${encodeURIComponent(model)}`)).status).toBe(409);
    expect((await bench.admin('DELETE', `/retirements/${encodeURIComponent(model)}`)).status).toBe(204);
    await bench.edgeKnows(model, (headers) => !headers.has('deprecation'));
    const served = await bench.at(sunsetMs, () => bench.request(surfaces['chat completions']!, model));
    expect(served.status).toBe(200);
    expect(served.headers.has('link')).toBe(false);
    const { data } = (await bench.admin('GET', `/retirements?model=${encodeURIComponent(model)}`)).json;
    expect(data).toMatchObject([{ model, withdrawn_at: iso(startMs) }]);
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
  });

  test('is audited with each of its changes', async () => {
    const model = await bench.createModel();
    await bench.announced(model);
    const path = `/retirements/${encodeURIComponent(model)}`;
    await bench.admin('PATCH', path, { sunset_at: iso(sunsetMs) });
    await bench.admin('DELETE', path);
    const types = await waitFor(
      async () => {
        const { json } = await bench.admin('GET', '/audit-events?limit=100');
        const own = json.data.filter(({ target }: { target: { id: string } }) => target.id === model);
        return own.length >= 4 && own.map(({ type }: { type: string }) => type).reverse();
      },
      { description: 'the audit events' },
    );
    expect(types).toEqual([
      'model_created',
      'model_retirement_announced',
      'model_sunset_date_set',
      'model_retirement_withdrawn',
    ]);
  });

  test.each(['weird/na:me@v+1', 'A..B/c_d'])('of %s is one well-formed Link', async (name) => {
    await bench.createModel({ name });
    await bench.announced(name, { retirement_note: 'Größe „>“ <b> "quoted", ключ; ends.' });
    const answer = await bench.request(surfaces['chat completions']!, name);
    expect(linksOf(answer.headers)).toEqual({ deprecation: pageOf(name) });
  });
});

test('a page of retirements begins with the next to come, goes on with those without a date, and ends with those that are over', async () => {
  const model = () => bench.createModel();
  const [second, over, undated, first, withdrawn] = [
    await model(),
    await model(),
    await model(),
    await model(),
    await model(),
  ];
  await bench.announce(second, { sunset_at: iso(sunsetMs + 2 * dayMs) });
  await bench.announce(over, { sunset_at: iso(sunsetMs) });
  await bench.announce(undated);
  await bench.announce(first, { sunset_at: iso(sunsetMs + dayMs) });
  await bench.announce(withdrawn, { sunset_at: iso(sunsetMs + dayMs / 2) });
  await bench.admin('DELETE', `/retirements/${encodeURIComponent(withdrawn)}`);
  await bench.at(sunsetMs + 1, async () => {
    await bench.signIn();
    const pages = [1, 2, 3].map((page) => bench.admin('GET', `/retirements?next_first=true&limit=100&page=${page}`));
    const listed = (await Promise.all(pages)).flatMap(({ json }) =>
      json.data.map((one: { model: string }) => one.model),
    );
    const ours = listed.filter((name) => [second, over, undated, first, withdrawn].includes(name));
    expect(ours).toEqual([first, second, undated, withdrawn, over]);
  });
});

describe('the page that the Link names', () => {
  const page = async (model: string) => {
    const response = await fetch(`${bench.gateway.url}/retirements/${model}`);
    return { status: response.status, headers: response.headers, text: await response.text() };
  };

  test('tells everyone what retires, when, and what comes after, under every spelling of the path', async () => {
    const model = await bench.createModel();
    await bench.announced(model, { sunset_at: iso(sunsetMs) });
    const encoded = await page(encodeURIComponent(model));
    expect(encoded.status).toBe(200);
    expect(encoded.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(encoded.headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-/);
    for (const text of [model, 'sandbox-chat', `datetime="${iso(sunsetMs)}"`, `datetime="${iso(startMs)}"`]) {
      expect(encoded.text).toContain(text);
    }
    expect(encoded.text).not.toContain('<script');
    expect((await page(model)).text).toBe(encoded.text);
    expect((await bench.at(sunsetMs, () => page(model))).text).toContain('was retired on');
  });

  test('escapes what an operator wrote, and lets it go in the direction of its language', async () => {
    const model = await bench.createModel();
    await bench.announced(model, { retirement_note: '<img src=x onerror=alert(1)> & "quotes"' });
    const { text } = await page(model);
    expect(text).not.toContain('<img');
    expect(text).toContain('<bdi>&#60;img src=x onerror=alert(1)&#62; &#38; &#34;quotes&#34;</bdi>');
  });

  test('is the same 404 for unknown, serving and private models, whatever their state', async () => {
    const unknown = await page('acme/no-such-model');
    expect(unknown.status).toBe(404);
    const secret = await bench.createModel({ visibility: 'private' });
    expect((await bench.announce(secret, { sunset_at: iso(sunsetMs) })).status).toBe(201);
    for (const name of [secret, 'sandbox-chat', '<script>', '%3Cscript%3E', 'x'.repeat(900)]) {
      const other = await page(name);
      expect(other.status).toBe(404);
      expect(other.text).toBe(unknown.text);
    }
    expect((await bench.at(sunsetMs, () => page(secret))).text).toBe(unknown.text);
    // For whoever follows the Link or the mail of a private model, it names the place where they can read about it.
    expect(unknown.text).toContain('<a href="/models">');
  });
});
