import { Type } from 'typebox';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Routes } from '../../../app.ts';
import { eventsAnswer, formCall, streamSchema, transcriptAnswer } from '../../../inference/call-schemas.ts';
import { inferenceRoute } from '../../../inference/route.ts';

export const transcriptionRoutes: Routes = (app, deps) =>
  inferenceRoute(app, deps, {
    operation: Operation.AUDIO_TRANSCRIPTIONS,
    summary: 'Transcribe audio',
    body: formCall({
      response_format: Type.Optional(
        Type.Enum(['json', 'text', 'srt', 'verbose_json', 'vtt', 'diarized_json'], {
          description: '`json` by default.',
        }),
      ),
      stream: streamSchema,
    }),
    answer: { ...transcriptAnswer, ...eventsAnswer },
  });
