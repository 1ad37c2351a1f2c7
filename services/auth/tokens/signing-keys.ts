import { createHash, createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { SqlEntityManager } from '@mikro-orm/postgresql';
import { SigningKeyStatus } from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import type { ServiceDatabase } from '#shared/db/orm.ts';
import { transaction } from '#shared/db/transaction.ts';
import type { Logger } from '#shared/logger.ts';
import type { SecretBox } from '#shared/secret-box.ts';
import { refreshToken } from '#shared/session-token.ts';
import { StartError } from '#shared/start-error.ts';
import { SigningKeyEntity, type SigningKeyRow } from '../db/signing-key.entity.ts';
import { recordChange } from '../feed/changes.ts';

export type Signer = { kid: string; privateKey: KeyObject };

/** The keys that sign and verify session tokens, as this process knows them; `reload` follows the database. */
export type SigningKeys = {
  /**
   * The key that signs new tokens. If its private half is unknown here, because another replica was started with a new JWT_PRIVATE_KEY,
   * then the newest former one, for as long as that is accepted.
   */
  active(): Signer;
  /** The private half of any key that still verifies; null when it is gone or not stored here. Looked up as by `verifier`. */
  signer(kid: string): Promise<Signer | null>;
  /**
   * The public half of a key whose tokens are accepted; an unknown one is looked up in the database, which may have to wait for its turn.
   * Rejects when it could not be, which says nothing about the key.
   */
  verifier(kid: string): Promise<KeyObject | null>;
  reload(): Promise<void>;
  /** Whether the signing key is JWT_PRIVATE_KEY, which only a new configuration can replace. */
  readonly configured: boolean;
};

type Deps = {
  database: ServiceDatabase;
  clock: Clock;
  logger: Logger;
  secretBox: SecretBox;
  jwtPrivateKey: string | undefined;
};

/** In milliseconds: unknown kids cause at most one query in this time, so that invented ones cost next to nothing. */
const lookupIntervalMs = 1_000;

/** Loads the keys; at the first start, or when JWT_PRIVATE_KEY is new, makes one the active key. */
export async function openSigningKeys(deps: Deps): Promise<SigningKeys> {
  const { database, clock, secretBox, jwtPrivateKey } = deps;
  const configured = jwtPrivateKey === undefined ? null : configuredKey(jwtPrivateKey);
  await ensureActiveKey(deps, configured);

  /** The accepted keys, oldest first. */
  let keys: ReadonlyMap<string, KnownKey> = new Map();
  let lastLookupMs = Number.NEGATIVE_INFINITY;
  let lookup: Promise<void> | null = null;
  let nextLookup: Promise<void> | null = null;

  let begun = 0;
  let taken = 0;

  const reload = async (): Promise<void> => {
    begun += 1;
    const place = begun;
    const loaded = await acceptedSigningKeys(database.em(), clock);
    // One that began before a rotation may come back after it.
    if (place < taken) return;
    taken = place;
    keys = new Map(
      loaded.map((row) => {
        const privateKey = row.kid === configured?.kid ? configured.privateKey : openPrivateKey(row, secretBox);
        return [row.kid, { row, publicKey: publicKeyOf(row.publicKey), privateKey }];
      }),
    );
  };
  await reload();

  const isAccepted = ({ row: { expiresAt } }: KnownKey) => expiresAt == null || expiresAt.getTime() > clock.now();
  const lookUpNext = async (): Promise<void> => {
    await delay(Math.max(0, lastLookupMs + lookupIntervalMs - clock.monotonic()));
    nextLookup = null;
    lastLookupMs = clock.monotonic();
    lookup = reload().finally(() => {
      lookup = null;
    });
    await lookup;
  };
  /** A look-up that began before its caller came may have missed the key: then the next one, which all who wait share, is waited for. */
  const lookUp = async (kid: string): Promise<KnownKey | undefined> => {
    if (!keys.has(kid)) await lookup;
    if (!keys.has(kid)) {
      nextLookup ??= lookUpNext();
      await nextLookup;
    }
    const key = keys.get(kid);
    return key !== undefined && isAccepted(key) ? key : undefined;
  };
  return {
    configured: configured !== null,
    reload,
    async signer(kid) {
      const privateKey = (await lookUp(kid))?.privateKey ?? null;
      return privateKey === null ? null : { kid, privateKey };
    },
    active() {
      const usable = [...keys.values()].filter((key) => key.privateKey !== null && isAccepted(key));
      const active =
        usable.find(({ row }) => row.status === SigningKeyStatus.ACTIVE) ??
        usable.findLast(({ row }) => row.status === SigningKeyStatus.RETIRING);
      if (active === undefined) throw new Error('there is no signing key whose private half is known to this process');
      return { kid: active.row.kid, privateKey: active.privateKey! };
    },
    verifier: async (kid) => (await lookUp(kid))?.publicKey ?? null,
  };
}

/** A key whose private half may be stored elsewhere, or not at all. */
type KnownKey = { row: SigningKeyRow; publicKey: KeyObject; privateKey: KeyObject | null };

/** The keys whose tokens are accepted now or soon. */
export const acceptedSigningKeys = (em: SqlEntityManager, clock: Clock): Promise<SigningKeyRow[]> =>
  em.find(
    SigningKeyEntity,
    { $or: [{ expiresAt: null }, { expiresAt: { $gt: new Date(clock.now()) } }] },
    { orderBy: { activatedAt: 'asc' } },
  );

type NewSigningKey = { kid: string; publicKey: Uint8Array; sealedPrivateKey: Uint8Array | null };

/** Makes a key and its row; the caller sets the row's status and time. */
export function newSigningKey(secretBox: SecretBox): NewSigningKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  const kid = thumbprint(publicKey);
  const der = privateKey.export({ format: 'der', type: 'pkcs8' });
  return { kid, publicKey: rawPublicKey(publicKey), sealedPrivateKey: secretBox.seal(der, sealContext(kid)) };
}

/** Makes `next` the signing key; the former one verifies until the last refresh token it signed has expired. */
export async function activateSigningKey(em: SqlEntityManager, next: NewSigningKey, clock: Clock): Promise<void> {
  const { kid, publicKey, sealedPrivateKey } = next;
  await em.nativeUpdate(
    SigningKeyEntity,
    { status: SigningKeyStatus.ACTIVE },
    { status: SigningKeyStatus.RETIRING, expiresAt: new Date(clock.now() + refreshToken.lifetimeMs) },
  );
  await em.upsert(SigningKeyEntity, {
    kid,
    publicKey,
    sealedPrivateKey,
    status: SigningKeyStatus.ACTIVE,
    activatedAt: new Date(clock.now()),
    expiresAt: null,
  });
}

async function ensureActiveKey(deps: Deps, configured: ConfiguredKey | null): Promise<void> {
  const { database, clock, logger, secretBox } = deps;
  await transaction(database, async (em) => {
    // Two processes that start at once must agree on one key.
    await takeAdvisoryLock(em, 'signing keys');
    const active = await em.findOne(SigningKeyEntity, { status: SigningKeyStatus.ACTIVE });
    // A stored key is kept unless the secret that sealed it is gone, or the configuration has another.
    const usable =
      active !== null &&
      (configured === null ? openPrivateKey(active, secretBox) !== null : active.kid === configured.kid);
    if (usable) return;
    if (configured === null && active?.sealedPrivateKey != null) {
      logger.warn(
        'SERVICE_SECRET is not the one that sealed the signing key: a new key signs, and waiting mails that were sealed with the old secret cannot be sent unless it is added at the end',
      );
    }
    em.clear();
    await activateSigningKey(em, configured ?? newSigningKey(secretBox), clock);
    await recordChange(em, { kind: 'signing_keys', forgetAfterMs: clock.now() });
  });
}

type ConfiguredKey = NewSigningKey & Signer;

/** The key in JWT_PRIVATE_KEY, whose private half never gets into the database. */
function configuredKey(pem: string): ConfiguredKey {
  try {
    const privateKey = createPrivateKey(pem);
    if (privateKey.asymmetricKeyType !== 'ed25519') throw new Error(`it is of type ${privateKey.asymmetricKeyType}`);
    const publicKey = createPublicKey(privateKey);
    return { kid: thumbprint(publicKey), privateKey, publicKey: rawPublicKey(publicKey), sealedPrivateKey: null };
  } catch (cause) {
    throw new StartError('JWT_PRIVATE_KEY is not valid: expected an Ed25519 private key in PKCS #8 PEM.', { cause });
  }
}

const sealContext = (kid: string): string => `signing key ${kid}`;

function openPrivateKey(row: SigningKeyRow, secretBox: SecretBox): KeyObject | null {
  const key = row.sealedPrivateKey == null ? null : secretBox.open(row.sealedPrivateKey, sealContext(row.kid));
  return key === null ? null : createPrivateKey({ key, format: 'der', type: 'pkcs8' });
}

/** RFC 7638: the hash of the required members in lexicographic order; RFC 8037 section 2 names them. */
function thumbprint(publicKey: KeyObject): string {
  const { crv, kty, x } = publicKey.export({ format: 'jwk' });
  return createHash('sha256').update(JSON.stringify({ crv, kty, x })).digest('base64url');
}

const rawPublicKey = (key: KeyObject): Buffer => Buffer.from(key.export({ format: 'jwk' }).x as string, 'base64url');

const publicKeyOf = (raw: Uint8Array): KeyObject =>
  createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(raw).toString('base64url') }, format: 'jwk' });
