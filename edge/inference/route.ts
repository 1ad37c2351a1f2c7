import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Scope } from '#shared/scopes.ts';
import type { EdgeApp, RouteDeps } from '../routes/routes.ts';
import { answerInference } from './answer.ts';

/** The prefixes under which inference is served by the same handlers (service.md, Endpoints). */
export const inferencePrefixes = ['/v1', '/api/v1'] as const;

const noBytes = new Uint8Array();

/** Registers an inference operation with a JSON body under both prefixes. */
export function jsonInferenceRoute(
  app: EdgeApp,
  deps: RouteDeps,
  route: { path: string; operation: Operation; scope: Scope },
): void {
  for (const prefix of inferencePrefixes) {
    app.post(
      prefix + route.path,
      {
        config: { access: { surface: 'api', scope: route.scope }, refusedWhileSuspended: true, admitBehindBody: true },
      },
      (request, reply) =>
        answerInference(
          deps,
          route.operation,
          { body: (request.body as Uint8Array | undefined) ?? noBytes, contentType: 'application/json', bodyFile: '' },
          request,
          reply,
        ),
    );
  }
}
