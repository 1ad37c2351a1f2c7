import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { formInferenceRoute } from '../../../inference/route.ts';
import type { Routes } from '../../routes.ts';

export const transcriptionRoutes: Routes = (app, deps) =>
  formInferenceRoute(app, deps, {
    path: '/audio/transcriptions',
    operation: Operation.AUDIO_TRANSCRIPTIONS,
    scope: 'inference:audio',
  });
