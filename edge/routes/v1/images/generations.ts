import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { jsonInferenceRoute } from '../../../inference/route.ts';
import type { Routes } from '../../routes.ts';

export const imageGenerationRoutes: Routes = (app, deps) =>
  jsonInferenceRoute(app, deps, {
    path: '/images/generations',
    operation: Operation.IMAGES_GENERATIONS,
    scope: 'inference:images',
  });
