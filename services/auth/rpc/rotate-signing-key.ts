import type { SqlEntityManager } from '@mikro-orm/postgresql';
import {
  RotateSigningKeyRequestSchema,
  SigningKeySchema,
  SigningKeyStatus,
} from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import type { Clock } from '#shared/clock.ts';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { once } from '#shared/idempotency.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import { type Caller, operatorCaller } from '#shared/rpc/caller.ts';
import { actorOf, recordAudit } from '../audit.ts';
import { endAllSessions } from '../db/session.repository.ts';
import { SigningKeyEntity } from '../db/signing-key.entity.ts';
import { signingKeyMessage } from '../db/signing-key.message.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { forgetAfterMs, recordChange } from '../feed/changes.ts';
import { acceptedSigningKeys, activateSigningKey, newSigningKey } from '../tokens/signing-keys.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'feed' | 'secretBox' | 'signingKeys'>;

/** In milliseconds: how soon after a change of JWT_PRIVATE_KEY it is the former key that is said to be compromised. */
const formerMeantMs = 24 * 3_600_000;

/**
 * Replaces the signing key in two steps: the new key is published, and signs once every live edge has it, so that no token is refused in
 * between. A compromised key ends at once, and with it every session that it signed for. One from JWT_PRIVATE_KEY can be replaced only
 * there; then what is left to do here is to end the former one.
 */
export const rotateSigningKey =
  (deps: Deps): AuthRpc<'rotateSigningKey'> =>
  async (request, context) => {
    const { database, clock, feed, secretBox, signingKeys } = deps;
    const caller = operatorCaller(context);
    const call = {
      caller,
      key: request.idempotencyKey,
      request,
      requestSchema: RotateSigningKeyRequestSchema,
      responseSchema: SigningKeySchema,
      nowMs: clock.now(),
    };

    const announced = async (version: bigint) => {
      await signingKeys.reload();
      await feed.knownEverywhere(version);
      return { signingKeys: (await acceptedSigningKeys(database.em(), clock)).map(signingKeyMessage) };
    };

    if (signingKeys.configured) {
      const ended = await transaction(database, async (em) => {
        await once(em, call, async () => {
          await takeAdvisoryLock(em, 'signing keys');
          const active = await em.findOneOrFail(SigningKeyEntity, { status: SigningKeyStatus.ACTIVE });
          const [former] = await em.find(
            SigningKeyEntity,
            { status: SigningKeyStatus.RETIRING },
            { orderBy: { activatedAt: 'desc' }, limit: 1 },
          );
          const isReplaced = clock.now() - active.activatedAt.getTime() < formerMeantMs;
          if (!request.compromised || former === undefined || !isReplaced) throw configured(request.compromised);
          await endOthers(em, clock);
          await recordAudit(em, clock, rotated({ caller, from: former.kid, to: active.kid, compromised: true }));
          return { kid: active.kid };
        });
        return recordChange(em, { kind: 'signing_keys', forgetAfterMs: forgetAfterMs(clock.now()) });
      });
      return announced(ended);
    }

    const { kid, published } = await transaction(database, async (em) => {
      const { kid } = await once(em, call, async () => {
        const next = newSigningKey(secretBox);
        await em.insert(SigningKeyEntity, {
          ...next,
          status: SigningKeyStatus.NEXT,
          activatedAt: new Date(clock.now()),
        });
        return { kid: next.kid };
      });
      return { kid, published: await recordChange(em, { kind: 'signing_keys', forgetAfterMs: clock.now() }) };
    });
    await feed.knownEverywhere(published);

    const activated = await transaction(database, async (em) => {
      await takeAdvisoryLock(em, 'signing keys');
      const next = await em.findOne(SigningKeyEntity, { kid });
      if (next === null) throw overtaken();
      // The call repeats what has been done.
      if (next.status !== SigningKeyStatus.NEXT) return currentVersion(em);
      const former = await em.findOneOrFail(SigningKeyEntity, { status: SigningKeyStatus.ACTIVE });
      em.clear();
      await activateSigningKey(em, { ...next, sealedPrivateKey: next.sealedPrivateKey ?? null }, clock);
      if (request.compromised) await endOthers(em, clock);
      await recordAudit(em, clock, rotated({ caller, from: former.kid, to: kid, compromised: request.compromised }));
      return recordChange(em, { kind: 'signing_keys', forgetAfterMs: forgetAfterMs(clock.now()) });
    });
    return announced(activated);
  };

/** Ends every key but the active one, and every session. */
async function endOthers(em: SqlEntityManager, clock: Clock): Promise<void> {
  // Not only the former key: whoever read one key in the database may have read them all. An expiry would come later where a clock is
  // behind.
  await em.nativeDelete(SigningKeyEntity, { status: { $in: [SigningKeyStatus.RETIRING, SigningKeyStatus.NEXT] } });
  await endAllSessions(em, new Date(clock.now()));
}

const rotated = ({ caller, from, to, compromised }: Rotation): Parameters<typeof recordAudit>[2] => ({
  tenantId: null,
  type: 'signing_key_rotated',
  actor: actorOf(caller, true),
  target: { type: 'signing_key', id: to },
  before: { kid: from },
  after: { kid: to, compromised },
});

type Rotation = { caller: Caller; from: string; to: string; compromised: boolean };

const configured = (isCompromised: boolean) =>
  gatewayError(
    ErrorReason.CONFLICT,
    `The signing key comes from JWT_PRIVATE_KEY: change that variable and restart${isCompromised ? ' Auth, then repeat this within a day: it ends the former key and every session' : ''}.`,
  );

/** Another rotation ended every key but its own, or the new key waited to sign for so long that it was tidied away. */
const overtaken = () =>
  gatewayError(
    ErrorReason.CONFLICT,
    'The new signing key was removed before it was used. Rotate again, as a new request.',
  );
