import {
  RotateSigningKeyRequestSchema,
  SigningKeySchema,
  SigningKeyStatus,
} from '#gen/modelgateway/auth/v1/signing_key_pb.ts';
import { takeAdvisoryLock } from '#shared/db/advisory-lock.ts';
import { transaction } from '#shared/db/transaction.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { once } from '#shared/idempotency.ts';
import { currentVersion } from '#shared/leased-feed/versions.ts';
import { operatorCaller } from '#shared/rpc/caller.ts';
import { actorOf, recordAudit } from '../audit.ts';
import { endAllSessions } from '../db/session.repository.ts';
import { SigningKeyEntity } from '../db/signing-key.entity.ts';
import { signingKeyMessage } from '../db/signing-key.message.ts';
import type { AuthDeps, AuthRpc } from '../deps.ts';
import { forgetAfterMs, recordChange } from '../feed/changes.ts';
import { acceptedSigningKeys, activateSigningKey, newSigningKey } from '../tokens/signing-keys.ts';

type Deps = Pick<AuthDeps, 'database' | 'clock' | 'feed' | 'secretBox' | 'signingKeys'>;

/**
 * Replaces the signing key in two steps: the new key is published, and signs once every live edge has it, so that no token is refused in
 * between. A compromised key ends at once, and with it every session that it signed for.
 */
export const rotateSigningKey =
  (deps: Deps): AuthRpc<'rotateSigningKey'> =>
  async (request, context) => {
    const { database, clock, feed, secretBox, signingKeys } = deps;
    const caller = operatorCaller(context);
    if (signingKeys.configured) {
      throw gatewayError(
        ErrorReason.CONFLICT,
        'The signing key comes from JWT_PRIVATE_KEY: change that variable and restart.',
      );
    }
    const call = {
      caller,
      key: request.idempotencyKey,
      request,
      requestSchema: RotateSigningKeyRequestSchema,
      responseSchema: SigningKeySchema,
      nowMs: clock.now(),
    };

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
      if (request.compromised) {
        // Not only the former key: whoever read one key in the database may have read them all. An expiry would come later where a clock is
        // behind.
        await em.nativeDelete(SigningKeyEntity, {
          status: { $in: [SigningKeyStatus.RETIRING, SigningKeyStatus.NEXT] },
        });
        await endAllSessions(em, new Date(clock.now()));
      }
      await recordAudit(em, clock, {
        tenantId: null,
        type: 'signing_key_rotated',
        actor: actorOf(caller, true),
        target: { type: 'signing_key', id: kid },
        before: { kid: former.kid },
        after: { kid, compromised: request.compromised },
      });
      return recordChange(em, { kind: 'signing_keys', forgetAfterMs: forgetAfterMs(clock.now()) });
    });
    await signingKeys.reload();
    await feed.knownEverywhere(activated);
    return { signingKeys: (await acceptedSigningKeys(database.em(), clock)).map(signingKeyMessage) };
  };

/** Another rotation ended every key but its own, or the new key waited to sign for so long that it was tidied away. */
const overtaken = () =>
  gatewayError(
    ErrorReason.CONFLICT,
    'The new signing key was removed before it was used. Rotate again, as a new request.',
  );
