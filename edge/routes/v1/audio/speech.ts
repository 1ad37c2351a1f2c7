import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { jsonInferenceRoute } from '../../../inference/route.ts';
import type { Routes } from '../../routes.ts';

export const speechRoutes: Routes = (app, deps) =>
  jsonInferenceRoute(app, deps, {
    path: '/audio/speech',
    operation: Operation.AUDIO_SPEECH,
    scope: 'inference:audio',
  });
