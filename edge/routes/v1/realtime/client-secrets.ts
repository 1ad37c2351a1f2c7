import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { prefixedId } from '#shared/ids.ts';
import { scopeOf } from '#shared/operations.ts';
import type { Routes } from '../../../app.ts';
import { bearerToken } from '../../../guards/bearer.ts';
import { noStore } from '../../../http/no-store.ts';
import { announcingErrors } from '../../../inference/errors.ts';
import { inferencePrefixes } from '../../../inference/route.ts';
import { ClientSecrets, type SecretContent } from '../../../realtime/client-secret.ts';
import { modelOfSession } from '../../../realtime/named-model.ts';
import { admitSession } from '../../../realtime/session.ts';

const secondsDefault = 600;
/** The largest session in a client secret, in bytes: a secret has to fit into a header. */
const sessionBytesMax = 4 * 1024;

const bodySchema = Type.Object({
  session: Type.Optional(
    Type.Object(
      { type: Type.Optional(Type.String()) },
      { description: 'The configuration that each session starts with; at most 4 KiB.' },
    ),
  ),
  expires_after: Type.Optional(
    Type.Object({
      anchor: Type.Optional(Type.Literal('created_at')),
      seconds: Type.Optional(Type.Integer({ minimum: 10, maximum: 7_200, description: '600 by default.' })),
    }),
  ),
});

const secretSchema = Type.Object({
  value: Type.String({ description: 'The secret, `ek_…`.' }),
  expires_at: Type.Integer({ description: 'Unix time in seconds.' }),
  session: Type.Object(
    { id: Type.String(), object: Type.String(), type: Type.String() },
    { additionalProperties: true },
  ),
});

/**
 * POST /realtime/client_secrets: a secret with which a browser may, for a while, open sessions on behalf of whoever made it
 * (openai-contract.md section 5).
 */
export const clientSecretRoutes: Routes = (app, deps) => {
  const { inference, serviceSecrets, clock } = deps;
  const secrets = new ClientSecrets(serviceSecrets);
  for (const prefix of inferencePrefixes) {
    app.post(
      `${prefix}/realtime/client_secrets`,
      {
        config: { access: { surface: 'api', scope: scopeOf(Operation.REALTIME_TRANSCRIPTION) }, startsWork: true },
        schema: {
          ...(prefix === '/v1' && {
            summary: 'Create a client secret',
            description: "A browser can use it for a while to open realtime sessions on the caller's behalf.",
          }),
          response: { 200: secretSchema },
          body: bodySchema,
        },
        errorHandler: announcingErrors(deps, ({ body }) =>
          modelOfSession((body as { session?: unknown } | null)?.session),
        ),
      },
      async (request, reply) => {
        const { session = {}, expires_after: expiry } = request.body;
        if (session.type !== undefined && session.type !== 'transcription') {
          throw invalidRequest('session.type', 'Only sessions of type `transcription` are supported.');
        }
        const sessionJson = JSON.stringify({ type: 'transcription', ...session });
        if (Buffer.byteLength(sessionJson) > sessionBytesMax) {
          throw invalidRequest('session', `\`session\` is too large: at most ${sessionBytesMax} bytes.`);
        }
        // A secret with which no session could be opened now is refused as that session would be.
        (await admitSession(inference, request, { model: '', sessionJson })).abort();
        const wantedMs = clock.now() + (expiry?.seconds ?? secondsDefault) * 1000;
        // The secret expires with the credential that made it.
        const expiresAtMs = Math.min(wantedMs, request.principal!.expiresAtMs);
        const value = secrets.seal({ expiresAtMs, holder: holderOf(request), sessionJson });
        return noStore(reply).send({
          value,
          expires_at: Math.floor(expiresAtMs / 1000),
          // Typed clients require an id; the sessions that are opened have ids of their own.
          session: {
            ...session,
            id: prefixedId('sess_'),
            object: 'realtime.transcription_session',
            type: 'transcription',
          },
        });
      },
    );
  }
};

function holderOf(request: FastifyRequest): SecretContent['holder'] {
  const principal = request.principal!;
  return principal.kind === 'key'
    ? { kind: 'key', digests: principal.digests }
    : { kind: 'session', accessToken: bearerToken(request.raw) };
}
