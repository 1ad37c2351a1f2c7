import { Type } from 'typebox';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Routes } from '../../../app.ts';
import { eventsAnswer, jsonAnswer, jsonCall, textFields } from '../../../inference/call-schemas.ts';
import { inferenceRoute } from '../../../inference/route.ts';

export const chatCompletionRoutes: Routes = (app, deps) =>
  inferenceRoute(app, deps, {
    operation: Operation.CHAT_COMPLETIONS,
    summary: 'Create a chat completion',
    body: jsonCall({
      messages: Type.Array(Type.Object({}, { additionalProperties: true })),
      ...textFields,
      max_completion_tokens: Type.Optional(Type.Integer({ minimum: 0 })),
    }),
    answer: { ...jsonAnswer, ...eventsAnswer },
  });
