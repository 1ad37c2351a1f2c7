import { Type } from 'typebox';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import type { Routes } from '../../../app.ts';
import { eventsAnswer, jsonCall } from '../../../inference/call-schemas.ts';
import { inferenceRoute } from '../../../inference/route.ts';

export const speechRoutes: Routes = (app, deps) =>
  inferenceRoute(app, deps, {
    operation: Operation.AUDIO_SPEECH,
    summary: 'Speak a text',
    body: jsonCall({
      input: Type.String({ maxLength: 4096 }),
      voice: Type.Optional(Type.String()),
      response_format: Type.Optional(
        Type.Enum(['mp3', 'opus', 'aac', 'flac', 'wav', 'pcm'], { description: '`mp3` by default.' }),
      ),
      stream_format: Type.Optional(
        Type.Enum(['audio', 'sse'], {
          description: '`sse` streams events with the audio in base64; `audio` by default.',
        }),
      ),
    }),
    answer: {
      'audio/*': { schema: Type.String({ format: 'binary' }) },
      'application/octet-stream': { schema: Type.String({ format: 'binary' }) },
      ...eventsAnswer,
    },
  });
