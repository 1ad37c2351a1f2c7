import { readdirSync, readFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import os, { getPriority } from 'node:os';
import { hashSync } from '@node-rs/argon2';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { ErrorReason } from '#shared/errors.ts';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { createPasswordHasher, type PasswordHasher } from './password-hasher.ts';

const account = 'owner@example.com';

let clock: ManualClock;
let passwords: PasswordHasher;

beforeEach(() => {
  clock = new ManualClock(0);
  passwords = createPasswordHasher(clock);
});

afterEach(() => passwords.close());

it('distinguishes the password behind a hash from others, and accepts none without a hash', async () => {
  const hash = await passwords.hash(account, 'Correct-horse-1');
  expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  expect(await passwords.verify(account, hash, 'Correct-horse-1')).toBe(true);
  expect(await passwords.verify(account, hash, 'Correct-horse-2')).toBe(false);
  expect(await passwords.verify(account, undefined, 'Correct-horse-1')).toBe(false);
});

it('takes a letter with its accent apart, as some keyboards send it, for the same letter in one piece', async () => {
  const composed = 'Mật-khẩu-1'.normalize('NFC');
  const decomposed = composed.normalize('NFD');
  expect(await passwords.verify(account, await passwords.hash(account, composed), decomposed)).toBe(true);
  expect(await passwords.verify(account, await passwords.hash(account, decomposed), composed)).toBe(true);
  expect(await passwords.verify(account, await passwords.hash(account, composed), 'Mat-khau-1')).toBe(false);
  const older = hashSync(decomposed);
  expect(await passwords.verify(account, older, decomposed)).toBe(true);
});

it.runIf(process.platform === 'linux')(
  'hashes in a thread that gives way, and leaves the others as they were',
  async () => {
    const before = threads();
    await passwords.hash(account, 'Correct-horse-1');
    const after = threads();
    const own = String(process.pid);
    const givingWay = [...after].filter(([id, { nice }]) => !before.has(id) && nice !== before.get(own)!.nice);
    expect(givingWay.map(([, { nice }]) => nice)).toEqual([getPriority() + 2]);
    for (const [id, { nice }] of before) if (after.has(id)) expect(after.get(id)!.nice).toBe(nice);
    // The work is done by that thread, whatever else this one does meanwhile.
    for (let time = 0; time < 30; time++) await passwords.hash(account, 'Correct-horse-1');
    const [[hashing, { cpuTicks }]] = givingWay as [[string, Thread]];
    expect(threads().get(hashing)!.cpuTicks - cpuTicks).toBeGreaterThan(5);
  },
);

it('refuses whoever comes when the queue is full or has waited for five seconds, without doing the work', async () => {
  const served = passwords.verify(account, undefined, 'Correct-horse-1');
  const line = Array.from({ length: 64 }, (_, n) =>
    passwords.verify(`user-${n}@example.com`, undefined, 'Correct-horse-1'),
  );
  const refusal = 'Too many people are signing in at once.';
  await expect(passwords.hash('late@example.com', 'Correct-horse-1')).rejects.toThrow(refusal);
  clock.advance(5_001);
  expect(await served).toBe(false);
  await Promise.all(line.map((waiting) => expect(waiting).rejects.toThrow(refusal)));
  expect(await passwords.hash(account, 'Correct-horse-1')).toContain('argon2id');
});

it('answers in the order of the queue', async () => {
  const answers: number[] = [];
  const places = Array.from({ length: 8 }, (_, n) => n);
  await Promise.all(places.map((n) => passwords.hash(account, 'Correct-horse-1').then(() => answers.push(n))));
  expect(answers).toEqual(places);
});

it('has nobody wait for more than one password of another account, however many of it are sent', async () => {
  const answers: string[] = [];
  const ask = (of: string) => passwords.verify(of, undefined, 'Correct-horse-1').then(() => answers.push(of));
  const flood = Array.from({ length: 100 }, () => ask(account));
  const refused = Promise.allSettled(flood).then((all) => all.filter(({ status }) => status === 'rejected'));
  await ask('stranger@example.com');
  expect(answers).toEqual([account, 'stranger@example.com']);
  expect(await refused).toHaveLength(67);
  await expect(flood[99]).rejects.toMatchObject({ reason: ErrorReason.RATE_LIMITED, details: { retryAfterMs: 1_000 } });
});

it('fails for an unreadable hash, and for nobody else', async () => {
  const unreadable = passwords.verify(account, 'no hash', 'Correct-horse-1');
  const next = passwords.hash(account, 'Correct-horse-1');
  await expect(unreadable).rejects.toThrow();
  expect(await next).toContain('argon2id');
});

it('refuses those who wait when it is closed, rather than leave them waiting', async () => {
  const waiting = passwords.hash(account, 'Correct-horse-1');
  await Promise.all([expect(waiting).rejects.toThrow('has ended'), passwords.close()]);
});

type Thread = { nice: number; cpuTicks: number };

/** Each thread of this process, by its id. */
function threads(): Map<string, Thread> {
  const found = new Map<string, Thread>();
  for (const id of readdirSync('/proc/self/task')) {
    // Fields from 3 on come after the name, which ends with a bracket; utime, stime and nice are fields 14, 15 and 19 (proc_pid_stat(5)).
    const fields = readFileSync(`/proc/self/task/${id}/stat`, 'utf8').split(') ').at(-1)!.split(' ').map(Number);
    found.set(id, { nice: fields[19 - 3]!, cpuTicks: fields[14 - 3]! + fields[15 - 3]! });
  }
  return found;
}

it('hashes too where the system lets no thread give way, as a service confined by systemd', async () => {
  const refused = vi.spyOn(os, 'setPriority').mockImplementation(() => {
    throw new Error('EPERM');
  });
  syncBuiltinESMExports();
  try {
    const { default: hashOrVerify } = await import('./hashing-thread.ts');
    expect(hashOrVerify({ work: 'hash', password: 'Correct-horse-1' })).toMatch(/^\$argon2id/);
    expect(refused).toHaveBeenCalledTimes(process.platform === 'linux' ? 1 : 0);
  } finally {
    refused.mockRestore();
    syncBuiltinESMExports();
  }
});
