import { Type } from 'typebox';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Routes } from '../../app.ts';
import { jsonAnswer, jsonCall, promptSchema } from '../../inference/call-schemas.ts';
import { inferenceRoute } from '../../inference/route.ts';

export const embeddingRoutes: Routes = (app, deps) =>
  inferenceRoute(app, deps, {
    operation: Operation.EMBEDDINGS,
    summary: 'Create embeddings',
    body: jsonCall({
      input: promptSchema,
      encoding_format: Type.Optional(
        Type.Enum(['float', 'base64'], {
          description: '`base64` gives little-endian 32-bit floats; `float` by default.',
        }),
      ),
    }),
    answer: jsonAnswer,
  });
