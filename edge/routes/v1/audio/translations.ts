import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { formInferenceRoute } from '../../../inference/route.ts';
import type { Routes } from '../../routes.ts';

export const translationRoutes: Routes = (app, deps) =>
  formInferenceRoute(app, deps, {
    path: '/audio/translations',
    operation: Operation.AUDIO_TRANSLATIONS,
    scope: 'inference:audio',
  });
