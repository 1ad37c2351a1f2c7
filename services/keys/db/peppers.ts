import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import type { KeyPepper } from '#shared/env.ts';
import { internalError } from '#shared/errors.ts';
import { pepperFingerprint } from '#shared/key-secret.ts';
import { StartError } from '#shared/start-error.ts';

/**
 * Checks the peppers against those under which digests were made. A pepper without digests may have changed. Digests with no recorded
 * pepper, from older versions of the gateway, are assumed to be under the present one.
 *
 * @throws StartError when digests were made under another pepper of the same version.
 */
export const checkPeppers = (database: ServiceDatabase, peppers: readonly KeyPepper[]): Promise<void> =>
  transaction(database, async (em) => {
    // Making a digest records its pepper in the same transaction: this waits for running ones, and later ones wait for it.
    await em.execute('lock table peppers in exclusive mode');
    for (const pepper of peppers) {
      if (await isAsNoted(em, pepper)) continue;
      const [{ used, noted }] = (await em.execute(
        `select exists (select from digests where pepper_version = ?) as used,
           exists (select from peppers where version = ?) as noted`,
        [pepper.version, pepper.version],
      )) as [{ used: boolean; noted: boolean }];
      if (used && noted) throw lostPepper(pepper);
      if (used) await notePepper(em, pepper);
      else await em.execute('delete from peppers where version = ?', [pepper.version]);
    }
  });

/** Records that a digest is made under a pepper, in its transaction. Refuses a pepper that differs from the one recorded before. */
export async function notePepper(em: SqlEntityManager, pepper: KeyPepper): Promise<void> {
  await em.execute('insert into peppers (version, fingerprint) values (?, ?) on conflict (version) do nothing', [
    pepper.version,
    pepperFingerprint(pepper),
  ]);
  if (await isAsNoted(em, pepper)) return;
  // Two processes have different peppers, since each passed the check at its own start.
  throw internalError(
    new Error(`KEY_PEPPER (version ${pepper.version}) differs from that of the process that made keys before`),
  );
}

async function isAsNoted(em: SqlEntityManager, pepper: KeyPepper): Promise<boolean> {
  const rows = await em.execute('select from peppers where version = ? and fingerprint = ?', [
    pepper.version,
    pepperFingerprint(pepper),
  ]);
  return rows.length === 1;
}

const lostPepper = ({ version }: KeyPepper): StartError =>
  new StartError(
    `KEY_PEPPER differs from the one that API keys in this database were made with (version ${version}), so all of them would be refused: restore it (a generated one is in secrets/key_pepper in DATA_DIR), or give those keys up by setting KEY_PEPPER with another version, such as ${version + 1}:secret.`,
  );
