import type { FastifyRequest, FastifySchema } from 'fastify';
import { Type } from 'typebox';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { invalidRequest } from '#shared/errors.ts';
import { pathOf, scopeOf } from '#shared/operations.ts';
import type { Routes } from '../../app.ts';
import { clientAddress } from '../../client-address.ts';
import { admit } from '../../guards/admit.ts';
import { toGatewayError } from '../../http/errors.ts';
import { noBody } from '../../http/json.ts';
import { announcingErrors } from '../../inference/errors.ts';
import { inferencePrefixes } from '../../inference/route.ts';
import { errorBody, errorBodySchema } from '../../openai/errors.ts';
import { realtimeAuthentication } from '../../realtime/authenticate.ts';
import { ClientSecrets } from '../../realtime/client-secret.ts';
import { carrySession, type WebSocketLike } from '../../realtime/client-socket.ts';
import { MessageMemory } from '../../realtime/message-memory.ts';
import { modelOfSession } from '../../realtime/named-model.ts';
import { ReadingTurns } from '../../realtime/reading-turns.ts';
import { admitSession } from '../../realtime/session.ts';

const operation = Operation.REALTIME_TRANSCRIPTION;

const schema: FastifySchema = {
  summary: 'Transcribe in real time',
  description:
    "A WebSocket with the events of OpenAI's realtime transcription. Browsers authenticate with the subprotocols `realtime` and `openai-insecure-api-key.<key>`, preferably with a client secret as the key.",
  uncheckedQuery: Type.Object({
    intent: Type.Optional(Type.Literal('transcription')),
    model: Type.Optional(
      Type.String({ maxLength: 255, description: 'May be given in the first `session.update` instead.' }),
    ),
  }),
  response: { 101: noBody('The session begins.'), 426: errorBodySchema },
};

/** GET /realtime: the realtime transcription WebSocket (openai-contract.md section 5). */
export const realtimeRoutes: Routes = (app, deps) => {
  const { inference, credentials, clock } = deps;
  const authenticate = realtimeAuthentication(deps, new ClientSecrets(deps.serviceSecrets));
  const reading = new ReadingTurns();
  app.decorateRequest('clientSecret', null);

  for (const prefix of inferencePrefixes) {
    app.route({
      method: 'GET',
      url: prefix + pathOf(operation),
      config: {
        access: { surface: 'api', scope: scopeOf(operation) },
        startsWork: true,
        authenticate,
      },
      ...(prefix === '/v1' && { schema }),
      errorHandler: announcingErrors(deps, namedModel),
      preHandler: async (request) => {
        if (!request.ws) return;
        const start = { model: urlModel(request), sessionJson: request.clientSecret?.sessionJson ?? '' };
        const session = await admitSession(inference, request, start);
        // Whatever becomes of the upgrade, the session ends with its connection.
        request.raw.socket.once('close', session.abort);
        if (request.raw.socket.destroyed) session.abort();
        request.realtime = session;
      },
      handler: (_request, reply) => {
        const error = invalidRequest(undefined, 'This endpoint is a WebSocket: send an upgrade request.');
        return reply.code(426).headers({ upgrade: 'websocket', connection: 'upgrade' }).send(errorBody(error));
      },
      wsHandler: (socket: unknown, request) => {
        const principal = request.principal!;
        deps.metrics.request(request.routeOptions.url!, 101, clock.monotonic() - request.startedMs);
        const memory = new MessageMemory(deps.bodyRoom, principal.userId);
        return carrySession(socket as WebSocketLike, request.realtime!, {
          request,
          hold(bytes) {
            const hasRoom = memory.hold(bytes);
            if (!hasRoom) deps.metrics.shed('memory');
            return hasRoom;
          },
          spend: (bytes, reader) => reading.spend(principal.userId, bytes, reader),
          isCredentialInDoubt: () => !credentials.isFollowed(principal),
          onCredentialEnded: (end, constrain) =>
            credentials.onEnded(principal, end, (changed) => {
              try {
                admit(changed, request.rule!, clientAddress(request));
                constrain(changed.constraints);
              } catch (refusal) {
                end(toGatewayError(refusal));
              }
            }),
        });
      },
    });
  }
};

/** The model that the URL names; empty when it names none. */
function urlModel(request: FastifyRequest): string {
  const { intent, model } = request.query as { intent?: unknown; model?: unknown };
  if (intent !== undefined && intent !== 'transcription') {
    throw invalidRequest('intent', 'Only sessions with `intent=transcription` are supported.', 'invalid_value');
  }
  if (model === undefined) return '';
  if (typeof model !== 'string' || model === '' || model.length > 255) {
    throw invalidRequest('model', '`model` must be the name of a single model.', 'invalid_value');
  }
  return model;
}

/** The model whose retirement an error announces: that of the URL, or else of the client secret's session. */
function namedModel(request: FastifyRequest): unknown {
  const sessionJson = request.clientSecret?.sessionJson;
  const { model } = request.query as { model?: unknown };
  return model ?? (sessionJson ? modelOfSession(JSON.parse(sessionJson)) : undefined);
}
