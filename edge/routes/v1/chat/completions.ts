import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { jsonInferenceRoute } from '../../../inference/route.ts';
import type { Routes } from '../../routes.ts';

export const chatCompletionRoutes: Routes = (app, deps) =>
  jsonInferenceRoute(app, deps, {
    path: '/chat/completions',
    operation: Operation.CHAT_COMPLETIONS,
    scope: 'inference:chat',
  });
