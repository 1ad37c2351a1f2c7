import { type TProperties, Type } from 'typebox';

/** What a body may be, by content type (OpenAPI 3.1, Media Type Object). */
export type Content = Readonly<Record<string, { schema: object }>>;

const callSchema = (fields: TProperties) =>
  Type.Object(
    {
      model: Type.String({ minLength: 1, description: 'The `id` of a model.' }),
      background: Type.Optional(
        Type.Boolean({
          description:
            'If true, the response is a job, which runs in the background. The header `Prefer: respond-async` does the same. With an `Idempotency-Key`, a repeat within 24 hours returns the same job. At 10,000 waiting jobs, 5 GiB of their requests or 5 GiB of kept results, the organization gets 429 with `Retry-After`.',
        }),
      ),
      ...fields,
    },
    {
      additionalProperties: true,
      description: "The fields that the gateway reads. All other fields of OpenAI's API reach the upstream unchanged.",
    },
  );

/** A call in JSON. */
export const jsonCall = (fields: TProperties): Content => ({
  'application/json': {
    schema: callSchema({
      ...fields,
      metadata: Type.Optional(
        Type.Record(Type.String(), Type.String(), { description: 'Stored with a job that runs later.' }),
      ),
    }),
  },
});

/** A call with an audio file. */
export const formCall = (fields: TProperties): Content => ({
  'multipart/form-data': {
    schema: callSchema({
      file: Type.String({
        format: 'binary',
        description: 'An audio file in flac, mp3, mp4, mpeg, mpga, m4a, ogg, wav or webm; at most 25 MiB.',
      }),
      ...fields,
    }),
  },
});

/** The prompt of a text completion: one or several, as texts or as tokens. */
export const promptSchema = Type.Union([
  Type.String(),
  Type.Array(Type.String()),
  Type.Array(Type.Integer()),
  Type.Array(Type.Array(Type.Integer())),
]);

/** Whether the answer is a stream of events. */
export const streamSchema = Type.Optional(Type.Boolean());

/** The fields that chat and text completions have in common. */
export const textFields = {
  stream: streamSchema,
  stream_options: Type.Optional(
    Type.Object({ include_usage: Type.Optional(Type.Boolean()) }, { additionalProperties: true }),
  ),
  n: Type.Optional(Type.Integer({ minimum: 1, maximum: 128 })),
  max_tokens: Type.Optional(Type.Integer({ minimum: 0 })),
};

/** The upstream's answer in JSON. */
export const jsonAnswer: Content = {
  'application/json': {
    schema: Type.Object({}, { additionalProperties: true, description: "As described in OpenAI's API reference." }),
  },
};

/** A stream of events. */
export const eventsAnswer: Content = {
  'text/event-stream': {
    schema: Type.String({ description: 'Server-sent events. An event with an `error` ends the stream.' }),
  },
};

/** What a transcription or translation may be answered in. */
export const transcriptAnswer: Content = {
  ...jsonAnswer,
  'text/plain': { schema: Type.String() },
};
