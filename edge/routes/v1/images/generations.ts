import { Type } from 'typebox';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Routes } from '../../../app.ts';
import { eventsAnswer, jsonAnswer, jsonCall, streamSchema } from '../../../inference/call-schemas.ts';
import { inferenceRoute } from '../../../inference/route.ts';

export const imageGenerationRoutes: Routes = (app, deps) =>
  inferenceRoute(app, deps, {
    operation: Operation.IMAGES_GENERATIONS,
    summary: 'Generate images',
    body: jsonCall({
      prompt: Type.String(),
      n: Type.Optional(Type.Integer({ minimum: 1 })),
      stream: streamSchema,
      background: Type.Optional(
        Type.Union([Type.Boolean(), Type.String()], {
          description:
            'If `true`, the response is a job, which runs in the background; a string describes the background of the image.',
        }),
      ),
    }),
    answer: { ...jsonAnswer, ...eventsAnswer },
  });
