import { type Static, Type } from 'typebox';
import type { MeteredUsage } from '#gen/modelgateway/models/v1/inference_service_pb.ts';

/** What one call used, without what it cost. */
export const quantitiesSchema = Type.Object({
  input_tokens: Type.Integer({ description: 'Including cached tokens.' }),
  cached_input_tokens: Type.Integer(),
  output_tokens: Type.Integer(),
  total_tokens: Type.Integer({ description: 'Input plus output tokens.' }),
  images: Type.Integer(),
  audio_seconds: Type.Number(),
  characters: Type.Integer({ description: 'Characters of speech input.' }),
});
export const quantitiesJson = (usage: MeteredUsage): Static<typeof quantitiesSchema> => ({
  input_tokens: Number(usage.inputTokens),
  cached_input_tokens: Number(usage.cachedInputTokens),
  output_tokens: Number(usage.outputTokens),
  total_tokens: Number(usage.inputTokens + usage.outputTokens),
  images: Number(usage.images),
  audio_seconds: Number(usage.audioMs) / 1000,
  characters: Number(usage.characters),
});
