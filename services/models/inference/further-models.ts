import { type GatewayError, invalidRequest } from '#shared/errors.ts';

/**
 * Fields in which upstreams that route themselves take further models, to answer in place of one that fails: that of OpenRouter and those of
 * LiteLLM, the last of which holds such lists among other settings. LiteLLM also lets the client say that the first has failed. The caller's
 * right to those models was not checked, nor would they be charged.
 */
export const furtherModels = [
  'models',
  'fallbacks',
  'context_window_fallbacks',
  'content_policy_fallbacks',
  'router_settings_override',
] as const;

export type FurtherModels = (typeof furtherModels)[number];

export const furtherModelsRefused = (name: FurtherModels): GatewayError =>
  invalidRequest(name, `\`${name}\` is not supported: name one model, in \`model\`.`, 'unsupported_parameter');
