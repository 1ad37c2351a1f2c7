import { afterAll, beforeAll, expect, test } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { anonymous, ownerEmail, startTestAuth, type TestAuth } from '../../../test/support/auth.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';

/*
 * security.md, user enumeration: the work is the same whether or not a user exists. Work is measured by this process's processor time,
 * which a busy machine distorts far less than wall time, and both kinds take turns.
 */

const clock = new ManualClock(Date.parse('2026-06-01T12:00:00Z'));
let fixture: TestAuth;
beforeAll(async () => {
  fixture = await startTestAuth({ clock });
});
afterAll(() => fixture.close());

const emails = { known: ownerEmail, unknown: 'nobody@example.com' };
type Kind = keyof typeof emails;
const turns: readonly Kind[] = ['known', 'unknown', 'unknown', 'known'];
const rounds = 6;
/** Long enough for earlier failures and mails to be forgotten. */
const longMs = 16 * 60_000;

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1]!;

test('a wrong password costs the same work whether or not the user exists', async () => {
  const cpuMs: Record<Kind, number[]> = { known: [], unknown: [] };
  const attempt = (kind: Kind) =>
    fixture.auth.login({ email: emails[kind], password: 'wrong' }, anonymous()).catch((error) => error);
  for (const kind of turns) await attempt(kind);
  for (let round = 0; round < rounds; round += 1) {
    clock.advance(longMs);
    for (const kind of turns) {
      const before = process.cpuUsage();
      const error = await attempt(kind);
      const { user, system } = process.cpuUsage(before);
      expect(error.reason).toBe(ErrorReason.INVALID_CREDENTIALS);
      cpuMs[kind].push((user + system) / 1_000);
    }
  }
  // The hash is nine tenths of the work, so without it one would be a fraction of the other.
  const ratio = median(cpuMs.known) / median(cpuMs.unknown);
  expect(ratio, JSON.stringify(cpuMs)).toBeGreaterThan(0.6);
  expect(ratio, JSON.stringify(cpuMs)).toBeLessThan(1.6);
});

test('asking for a reset takes the same time whether or not the user exists', async () => {
  const tookMs: Record<Kind, number[]> = { known: [], unknown: [] };
  for (let round = 0; round < rounds; round += 1) {
    clock.advance(longMs);
    for (const kind of turns.slice(0, 2)) {
      const startedMs = performance.now();
      await fixture.auth.forgotPassword({ email: emails[kind] }, anonymous());
      tookMs[kind].push(performance.now() - startedMs);
    }
  }
  const { rows } = await mailsSent();
  expect(rows, 'otherwise the known address has cost no work').toEqual([{ mails: rounds }]);
  // No answer comes before all the work is done and the common time has passed. What this machine adds, it adds to both.
  for (const times of Object.values(tookMs)) expect(Math.min(...times)).toBeGreaterThan(295);
  expect(Math.abs(Math.min(...tookMs.known) - Math.min(...tookMs.unknown)), JSON.stringify(tookMs)).toBeLessThan(100);
});

async function mailsSent() {
  const pg = await import('pg');
  const client = new pg.default.Client({ connectionString: fixture.database.url });
  await client.connect();
  try {
    return await client.query(`select count(*)::int as mails from auth.mails where kind = 'password_reset'`);
  } finally {
    await client.end();
  }
}
