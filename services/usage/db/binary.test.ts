import fc from 'fast-check';
import pg from 'pg';
import { inject, test } from 'vitest';
import { arrayOf } from './binary.ts';

/** What Postgres reads in an array that was sent in binary, as the text of its items. */
async function readBack(client: pg.Client, type: string, bytes: Buffer): Promise<string[]> {
  const { rows } = await client.query({
    text: `select item::text from unnest($1::${type}[]) with ordinality as t (item, place) order by place`,
    values: [bytes],
  });
  return rows.map(({ item }) => item);
}

const timeMin = Date.UTC(1900, 0, 1);
const timeMax = Date.UTC(2100, 0, 1);
const text = fc.string({ unit: 'binary', maxLength: 40 }).map((value) => value.replaceAll('\0', ''));

test('PostgreSQL reads from arrays in binary exactly what was written: numbers, moments, ids and texts', async () => {
  const client = new pg.Client({ connectionString: inject('postgresUrl') });
  await client.connect();
  await client.query("set timezone = 'UTC'");
  const same = async <Item>(items: Item[], type: Parameters<typeof arrayOf>[0], print: (item: Item) => string) => {
    const read = await readBack(
      client,
      type,
      arrayOf(type, items, (item) => item as never),
    );
    return JSON.stringify(read) === JSON.stringify(items.map(print));
  };
  try {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.maxSafeInteger()),
        fc.array(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })),
        fc.array(fc.integer({ min: timeMin, max: timeMax })),
        fc.array(fc.uuid()),
        fc.array(text),
        async (numbers, bigints, moments, ids, texts) =>
          (await same(numbers, 'bigint', (value) => String(BigInt(value)))) &&
          (await same(bigints, 'bigint', String)) &&
          (await same(moments, 'timestamptz', printed)) &&
          (await same(ids, 'uuid', String)) &&
          (await same(texts, 'text', String)),
      ),
      { examples: [[[-1, 0, -(2 ** 32), 2 ** 32 - 1], [-1n, 0n], [Date.UTC(2000, 0, 1) - 1], [], ['é€😀']]] },
    );
  } finally {
    await client.end();
  }
});

/** A moment as PostgreSQL prints it: without zeros at the end of a fraction. */
const printed = (ms: number): string => {
  const [seconds, fraction] = new Date(ms).toISOString().replace('T', ' ').replace('Z', '').split('.');
  const digits = fraction!.replace(/0+$/, '');
  return `${seconds}${digits === '' ? '' : `.${digits}`}+00`;
};
