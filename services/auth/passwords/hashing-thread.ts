import { randomBytes } from 'node:crypto';
import { getPriority, setPriority } from 'node:os';
import { hashSync, verifySync } from '@node-rs/argon2';

/** To hash a password, or to check one against a hash, which is absent for an unknown user. */
export type HashingTask = { password: string } & (
  | { work: 'hash' }
  | { work: 'verify'; passwordHash: string | undefined }
);

/** OWASP Password Storage Cheat Sheet: argon2id with 19 MiB, two passes, one lane. */
const cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

const base64 = (length: number) => randomBytes(length).toString('base64').replaceAll('=', '');
/** A hash that no password matches; checking it is as much work as for any other. */
const nobodysHash = `$argon2id$v=19$m=${cost.memoryCost},t=${cost.timeCost},p=${cost.parallelism}$${base64(16)}$${base64(32)}`;

// Linux has priorities per thread; elsewhere they are the process's, which stays unchanged. Two steps down are enough for inference to go
// first, and still leave two thirds of another thread's share: sign-ins finish in time even on a very busy machine.
if (process.platform === 'linux') {
  try {
    setPriority(Math.min(getPriority() + 2, 19));
  } catch {
    // Not allowed, as to a service that systemd confines (SystemCallFilter=~@resources): people sign in all the same.
  }
}

/** The hash, or whether the password matches. */
export default function hashOrVerify(task: HashingTask): string | boolean {
  // Keyboards differ in whether an accent comes with its letter or after it (NIST SP 800-63B, Password Verifiers).
  const password = task.password.normalize('NFC');
  if (task.work === 'hash') return hashSync(password, cost);
  const hash = task.passwordHash ?? nobodysHash;
  // Older hashes are of passwords as they were typed.
  return verifySync(hash, password) || (password !== task.password && verifySync(hash, task.password));
}
