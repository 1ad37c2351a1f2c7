import { Type } from 'typebox';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Routes } from '../../../app.ts';
import { formCall, transcriptAnswer } from '../../../inference/call-schemas.ts';
import { inferenceRoute } from '../../../inference/route.ts';

export const translationRoutes: Routes = (app, deps) =>
  inferenceRoute(app, deps, {
    operation: Operation.AUDIO_TRANSLATIONS,
    summary: 'Translate audio into English',
    body: formCall({
      response_format: Type.Optional(
        Type.Enum(['json', 'text', 'srt', 'verbose_json', 'vtt'], { description: '`json` by default.' }),
      ),
    }),
    answer: transcriptAnswer,
  });
