import { readdirSync, readFileSync } from 'node:fs';
import { getPriority } from 'node:os';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { ManualClock } from '#shared/clock.ts';
import { createPasswordHasher, type PasswordHasher } from './password-hasher.ts';

let clock: ManualClock;
let passwords: PasswordHasher;

beforeEach(() => {
  clock = new ManualClock(0);
  passwords = createPasswordHasher(clock);
});

afterEach(() => passwords.close());

it('knows the password behind a hash from another, and no password behind no hash', async () => {
  const hash = await passwords.hash('Correct-horse-1');
  expect(hash).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  expect(await passwords.verify(hash, 'Correct-horse-1')).toBe(true);
  expect(await passwords.verify(hash, 'Correct-horse-2')).toBe(false);
  expect(await passwords.verify(undefined, 'Correct-horse-1')).toBe(false);
});

it.runIf(process.platform === 'linux')(
  'hashes in a thread that gives way, and leaves the others as they were',
  async () => {
    const before = niceOfThreads();
    await passwords.hash('Correct-horse-1');
    const after = niceOfThreads();
    const givingWay = [...after].filter(
      ([thread, nice]) => !before.has(thread) && nice !== before.get(String(process.pid)),
    );
    expect(givingWay.map(([, nice]) => nice)).toEqual([getPriority() + 2]);
    for (const [thread, nice] of before) if (after.has(thread)) expect(after.get(thread)).toBe(nice);
  },
);

it('refuses who comes when the line is full, and who has waited in it for five seconds, without the work', async () => {
  const served = passwords.verify(undefined, 'Correct-horse-1');
  const line = Array.from({ length: 64 }, () => passwords.verify(undefined, 'Correct-horse-1'));
  const refusal = 'Too many people are signing in at once.';
  await expect(passwords.hash('Correct-horse-1')).rejects.toThrow(refusal);
  clock.advance(5_001);
  expect(await served).toBe(false);
  await Promise.all(line.map((waiting) => expect(waiting).rejects.toThrow(refusal)));
  expect(await passwords.hash('Correct-horse-1')).toContain('argon2id');
});

it('answers who waits in turn, and leaves the event loop free', async () => {
  await passwords.hash('Correct-horse-1');
  const before = { process: process.cpuUsage(), thread: process.threadCpuUsage() };
  const answers: number[] = [];
  const places = Array.from({ length: 16 }, (_, n) => n);
  await Promise.all(places.map((n) => passwords.hash('Correct-horse-1').then(() => answers.push(n))));
  expect(answers).toEqual(places);
  // The work is not this thread's, which does whatever else the process has to do.
  const milliseconds = ({ user, system }: NodeJS.CpuUsage) => (user + system) / 1_000;
  const own = milliseconds(process.threadCpuUsage(before.thread));
  expect(own).toBeLessThan(milliseconds(process.cpuUsage(before.process)) / 2);
});

it('fails for a hash that cannot be read, and for nobody else', async () => {
  const unreadable = passwords.verify('no hash', 'Correct-horse-1');
  const next = passwords.hash('Correct-horse-1');
  await expect(unreadable).rejects.toThrow();
  expect(await next).toContain('argon2id');
});

it('refuses who waits when it is closed, rather than to leave them waiting', async () => {
  const waiting = passwords.hash('Correct-horse-1');
  await Promise.all([expect(waiting).rejects.toThrow('has ended'), passwords.close()]);
});

/** Each thread of this process with its nice value, by its id. */
function niceOfThreads(): Map<string, number> {
  const nice = new Map<string, number>();
  for (const thread of readdirSync('/proc/self/task')) {
    // Fields 3 and on stand behind the name, which ends with a bracket; nice is field 19 (proc_pid_stat(5)).
    const fields = readFileSync(`/proc/self/task/${thread}/stat`, 'utf8').split(') ').at(-1)!.split(' ');
    nice.set(thread, Number(fields[19 - 3]));
  }
  return nice;
}
