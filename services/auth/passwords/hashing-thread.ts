import { randomBytes } from 'node:crypto';
import { getPriority, setPriority } from 'node:os';
import { parentPort } from 'node:worker_threads';
import { hashSync, verifySync } from '@node-rs/argon2';

/** To hash a password, or to say whether it is the one behind a hash; a hash is absent for an unknown user. */
export type HashingTask = { password: string } & (
  | { work: 'hash' }
  | { work: 'verify'; passwordHash: string | undefined }
);

/** OWASP Password Storage Cheat Sheet: argon2id with 19 MiB, two passes, one lane. */
const cost = { memoryCost: 19_456, timeCost: 2, parallelism: 1 };

const base64 = (length: number) => randomBytes(length).toString('base64').replaceAll('=', '');
/** Nobody's password is behind it, and to find that out is the same work as for anybody's. */
const nobodysHash = `$argon2id$v=19$m=${cost.memoryCost},t=${cost.timeCost},p=${cost.parallelism}$${base64(16)}$${base64(32)}`;

// Linux keeps a priority for each thread; elsewhere it is the process's, which stays as it is. Two steps down is enough for inference
// to go first, and still gets two thirds of another thread's share: sign-ins end in time on a machine that is ever so busy.
if (process.platform === 'linux') setPriority(Math.min(getPriority() + 2, 19));

function carryOut(task: HashingTask): string | boolean {
  if (task.work === 'hash') return hashSync(task.password, cost);
  return verifySync(task.passwordHash ?? nobodysHash, task.password);
}

parentPort!.on('message', (task: HashingTask) => {
  try {
    parentPort!.postMessage(carryOut(task));
  } catch (error) {
    // A hash that cannot be read is one caller's; the others' work goes on.
    parentPort!.postMessage(error);
  }
});
