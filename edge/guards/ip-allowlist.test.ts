import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { parseAddress, parseRange } from '#shared/cidr.ts';
import { compileIpAllowlist } from './ip-allowlist.ts';

describe('an entry is an address or a range that can be read in only one way', () => {
  test.each([
    '10.0.0.0/8',
    '192.0.2.1',
    '192.0.2.1/32',
    '0.0.0.0/0',
    '255.255.255.255',
    '::/0',
    '::1',
    '2001:db8::/32',
    '2001:DB8::1',
    '1:2:3:4:5:6:7:8',
    '1:2:3:4:5:6:7::',
    '::2:3:4:5:6:7:8',
    '::ffff:192.0.2.1',
    '::ffff:10.0.0.0/104',
    '64:ff9b::192.0.2.33',
  ])('%s is accepted', (text) => {
    expect(parseRange(text)).not.toBeNull();
  });

  test.each([
    ['a leading zero, which some read as octal', '010.0.0.1'],
    ['zeros in front', '10.0.0.00'],
    ['too few parts', '10.1'],
    ['too many parts', '10.0.0.0.1'],
    ['one number', '167772161'],
    ['hexadecimal parts', '0x0a.0.0.1'],
    ['a part above 255', '256.0.0.1'],
    ['a prefix too long', '10.0.0.0/33'],
    ['a prefix too long', '2001:db8::/129'],
    ['a prefix with a leading zero', '10.0.0.0/08'],
    ['a negative prefix', '10.0.0.0/-1'],
    ['a signed prefix', '10.0.0.0/+8'],
    ['an empty prefix', '10.0.0.0/'],
    ['two prefixes', '10.0.0.0/8/8'],
    ['a netmask for a prefix', '10.0.0.0/255.0.0.0'],
    ['host bits', '10.0.0.1/8'],
    ['host bits', '2001:db8::1/32'],
    ['host bits in the mapped address', '::ffff:10.0.0.1/104'],
    ['a zone id', 'fe80::1%eth0'],
    ['a zone id and a prefix', 'fe80::%eth0/64'],
    ['full-width digits', '１０.0.0.1'],
    ['Arabic-Indic digits', '١٠.0.0.1'],
    ['a full-width dot', '10．0.0.1'],
    ['spaces', ' 10.0.0.1'],
    ['spaces', '10.0.0.1 '],
    ['a line break', '10.0.0.1\n'],
    ['a NUL', '10.0.0.1\0'],
    ['brackets', '[::1]'],
    ['a port', '10.0.0.1:80'],
    ['a name', 'localhost'],
    ['a wildcard', '*'],
    ['a wildcard', '10.0.0.*'],
    ['a span', '10.0.0.1-10.0.0.9'],
    ['nothing', ''],
    ['a slash', '/8'],
    ['two runs of zeros', '1::2::3'],
    ['three colons', ':::'],
    ['one colon', ':'],
    ['a colon in front', ':1:2:3:4:5:6:7'],
    ['a colon behind', '1:2:3:4:5:6:7:'],
    ['nine groups', '1:2:3:4:5:6:7:8:9'],
    ['eight groups and a run of zeros', '1:2:3:4::5:6:7:8'],
    ['five digits', '12345::'],
    ['an IPv4 address in the middle', '::1.2.3.4:5'],
    ['an IPv4 address before the zeros', '1.2.3.4::'],
    ['an IPv4 address too early', '1:2:3:4:5:6:7:1.2.3.4'],
    ['a leading zero in the mapped address', '::ffff:010.0.0.1'],
  ])('%s is refused (%s)', (_why, text) => {
    expect(parseRange(text)).toBeNull();
  });
});

test('an IPv4-mapped address is the IPv4 address inside it', () => {
  expect(parseAddress('::ffff:192.0.2.1')).toBe(parseAddress('192.0.2.1'));
  expect(parseAddress('::FFFF:C000:201')).toBe(parseAddress('192.0.2.1'));
  expect(compileIpAllowlist(['::ffff:10.0.0.0/104'])!('10.9.9.9')).toBe(true);
  expect(compileIpAllowlist(['::ffff:0:0/96'])!('10.9.9.9')).toBe(true);
  expect(compileIpAllowlist(['10.0.0.0/8'])!('::ffff:10.9.9.9')).toBe(true);
  expect(compileIpAllowlist(['10.0.0.0/8'])!('::ffff:11.9.9.9')).toBe(false);
});

test('IPv6 ranges contain no IPv4 client, and vice versa', () => {
  expect(compileIpAllowlist(['::/0'])!('192.0.2.1')).toBe(false);
  expect(compileIpAllowlist(['0.0.0.0/0'])!('2001:db8::1')).toBe(false);
});

test('an address allowed before does not allow any other', () => {
  const allows = compileIpAllowlist(['10.0.0.0/8', '2001:db8::/32'])!;
  for (const [ip, allowed] of [
    ['10.1.2.3', true],
    ['11.1.2.3', false],
    ['10.1.2.3', true],
    ['2001:db8::1', true],
    ['2001:db9::1', false],
    ['', false],
  ] as const) {
    expect(allows(ip), ip).toBe(allowed);
  }
});

test('an empty list is no restriction, and what is not an address is not allowed', () => {
  expect(compileIpAllowlist([])).toBeNull();
  const allows = compileIpAllowlist(['0.0.0.0/0', '::/0'])!;
  for (const none of ['', 'not an address']) expect(allows(none)).toBe(false);
  expect(allows('fe80::1%eth0')).toBe(true);
});

describe('Postgres inet agrees', () => {
  let client: pg.Client;
  beforeAll(async () => {
    client = new pg.Client({ connectionString: inject('postgresUrl') });
    await client.connect();
  });
  afterAll(() => client.end());

  // security.md, CIDR: a million pairs with LONG=1.
  const pairsMax = process.env.LONG ? 1_000_000 : 20_000;

  test(`on ${pairsMax} pairs of an address and a range`, { timeout: 600_000 }, async () => {
    const batch = 10_000;
    let allowed = 0;
    for (let done = 0; done < pairsMax; done += batch) {
      const pairs = fc.sample(addressAndRange, { numRuns: batch, seed: 1_000 + done });
      const { rows } = await client.query<{ contained: boolean }>(
        `select address::inet <<= range::cidr as contained
         from unnest($1::text[], $2::text[]) with ordinality as pair (address, range, place) order by place`,
        [pairs.map(({ address }) => address), pairs.map(({ range }) => range)],
      );
      for (const [index, { address, range }] of pairs.entries()) {
        const mine = compileIpAllowlist([range])!(address);
        if (mine !== rows[index]!.contained) {
          expect.fail(`${address} in ${range}: Postgres says ${rows[index]!.contained}, we say ${mine}`);
        }
        if (mine) allowed += 1;
      }
    }
    // Otherwise the pairs would show nothing.
    expect(allowed).toBeGreaterThan(pairsMax / 10);
    expect(allowed).toBeLessThan(pairsMax - pairsMax / 10);
  });

  test('that whatever is accepted is a range without host bits', async () => {
    const texts = fc.sample(nearlyRange, { numRuns: 20_000, seed: 7 });
    const taken = texts.filter((text) => parseRange(text) !== null);
    expect(taken.length).toBeGreaterThan(100);
    // A text that Postgres refuses fails the statement.
    const { rows } = await client.query('select count(text::cidr) as count from unnest($1::text[]) as text', [taken]);
    expect(Number(rows[0].count)).toBe(taken.length);
  });
});

type Bits = { bits: bigint; width: 32 | 128 };

const ipv4Bits = fc.nat({ max: 2 ** 32 - 1 }).map((value): Bits => ({ bits: BigInt(value), width: 32 }));
// Not ::ffff:0:0/96: Postgres takes those for IPv6 addresses, we take them for the IPv4 addresses that they are.
const ipv6Bits = fc
  .bigInt({ min: 0n, max: 2n ** 128n - 1n })
  .chain((bits) => fc.constantFrom(bits, bits & 0xffff_0000_ffff_0000n, bits >> 64n, bits << 112n))
  .map((bits): Bits => ({ bits: BigInt.asUintN(128, bits), width: 128 }))
  .filter(({ bits }) => bits >> 32n !== 0xffffn);

/** A range, and an address that is often inside it or differs from it by one bit. */
const addressAndRange = fc
  .tuple(fc.oneof(ipv4Bits, ipv6Bits), fc.nat(), fc.nat(), fc.nat({ max: 3 }), fc.oneof(ipv4Bits, ipv6Bits))
  .map(([base, prefixSeed, bitSeed, relation, stranger]) => {
    const prefix = prefixSeed % (base.width + 1);
    const hostBits = BigInt(base.width - prefix);
    const network = { ...base, bits: (base.bits >> hostBits) << hostBits };
    const flipped = { ...base, bits: base.bits ^ (1n << BigInt(bitSeed % base.width)) };
    const address = relation === 0 ? stranger : relation === 1 ? base : flipped;
    return {
      address: textOf(address),
      range: `${textOf(network)}/${prefix}`,
      mapped: isMapped(address) || isMapped(network),
    };
  })
  .filter(({ mapped }) => !mapped);

const isMapped = ({ bits, width }: Bits): boolean => width === 128 && bits >> 32n === 0xffffn;

function textOf({ bits, width }: Bits): string {
  if (width === 32) return [24n, 16n, 8n, 0n].map((shift) => (bits >> shift) & 255n).join('.');
  const groups = Array.from({ length: 8 }, (_, index) => ((bits >> BigInt(112 - 16 * index)) & 0xffffn).toString(16));
  // The longest form, or with the first run of zeros shortened.
  return bits % 2n === 0n ? groups.join(':') : groups.join(':').replace(/(^|:)0(:0)+(:|$)/, '::');
}

const nearlyRange = fc
  .array(
    fc.constantFrom('0', '1', '10', '255', '256', 'ff', 'FFFF', '12345', '.', '.', ':', ':', '::', '/', '8', '32'),
    {
      minLength: 1,
      maxLength: 16,
    },
  )
  .map((parts) => parts.join(''))
  .chain((text) => fc.constantFrom(text, `10.0.0.0${text}`, `::${text}`, `1:2:3${text}`));
