import { Type } from 'typebox';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Routes } from '../../app.ts';
import { eventsAnswer, jsonAnswer, jsonCall, promptSchema, textFields } from '../../inference/call-schemas.ts';
import { inferenceRoute } from '../../inference/route.ts';

export const completionRoutes: Routes = (app, deps) =>
  inferenceRoute(app, deps, {
    operation: Operation.COMPLETIONS,
    summary: 'Create a completion',
    body: jsonCall({
      prompt: promptSchema,
      ...textFields,
      best_of: Type.Optional(Type.Integer({ minimum: 1, maximum: 128 })),
    }),
    answer: { ...jsonAnswer, ...eventsAnswer },
  });
