import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { jsonInferenceRoute } from '../../inference/route.ts';
import type { Routes } from '../routes.ts';

export const embeddingRoutes: Routes = (app, deps) =>
  jsonInferenceRoute(app, deps, {
    path: '/embeddings',
    operation: Operation.EMBEDDINGS,
    scope: 'inference:embeddings',
  });
