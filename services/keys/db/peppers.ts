import type { SqlEntityManager } from '@mikro-orm/postgresql';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import type { KeyPepper } from '#shared/env/secrets.ts';
import { internalError } from '#shared/errors.ts';
import { pepperFingerprint } from '#shared/key-secret.ts';
import type { Logger } from '#shared/logger.ts';
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

/**
 * Logs how many secrets of API keys need another pepper than the first one, under which secrets are made now: an operator who replaces a
 * pepper removes the old one once none is left (README, Several processes). If they cannot be counted in time, that is logged instead.
 */
export async function tellOfOtherPeppers(
  database: Pick<ServiceDatabase, 'query'>,
  peppers: readonly KeyPepper[],
  logger: Pick<Logger, 'info' | 'warn'>,
): Promise<void> {
  try {
    const { rows } = await database.query<{ version: number; secrets: bigint }>({
      // Nearly always there is no other, and the digests are not counted.
      text: `select pepper_version as version, count(*) as secrets from digests
        where pepper_version <> $1 and exists (select from peppers where version <> $1)
        group by pepper_version order by pepper_version`,
      values: [peppers[0]!.version],
    });
    for (const { version, secrets } of rows) {
      const fields = { version, secrets: Number(secrets) };
      if (peppers.some((pepper) => pepper.version === version))
        logger.info(fields, 'secrets of API keys need an earlier pepper until they are rotated');
      else logger.warn(fields, 'secrets of API keys are refused, for KEY_PEPPER no longer has their pepper');
    }
  } catch (err) {
    logger.warn({ err }, 'the secrets of API keys that need an earlier pepper could not be counted');
  }
}

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
    `KEY_PEPPER differs from the one that API keys in this database were made with (version ${version}), so all of them would be refused: restore it (a generated one is kept in secrets/key_pepper in DATA_DIR; where that file was lost, a start writes a new one), or give those keys up by setting KEY_PEPPER with another version, such as ${version + 1}:secret.`,
  );
