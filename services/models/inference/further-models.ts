import { type GatewayError, invalidRequest } from '#shared/errors.ts';
import { type FieldSet, fieldSet, ObjectScan } from '../bytes/json-scan.ts';

/**
 * Fields in which some upstreams take further models, to answer in place of one that fails. The caller's right to those models was not
 * checked, nor would they be charged.
 */
export const furtherModels = [
  // OpenRouter.
  'models',
  // LiteLLM, where the client may also say that the first model has failed. The last field holds such lists among other settings.
  'fallbacks',
  'context_window_fallbacks',
  'content_policy_fallbacks',
  'router_settings_override',
  // OpenRouter: a preset names models too.
  'preset',
] as const;

export type FurtherModels = (typeof furtherModels)[number];

export const furtherModelsRefused = (
  name: FurtherModels | 'providerOptions.gateway.models' | 'svg.model',
): GatewayError =>
  invalidRequest(name, `\`${name}\` is not supported: name one model, in \`model\`.`, 'unsupported_parameter');

const optionFields = fieldSet('gateway');
const gatewayFields = fieldSet('models');

/** Refuses further models among the options for Vercel's gateway, which takes them at `providerOptions.gateway.models`. */
export function refuseModelsInOptions<Name extends string>(scan: ObjectScan<Name | 'providerOptions'>): void {
  const options = objectIn(scan, 'providerOptions', optionFields);
  const gateway = options && objectIn(options, 'gateway', gatewayFields);
  if (options?.ambiguous || gateway?.ambiguous) {
    throw invalidRequest('providerOptions', '`providerOptions.gateway` is given more than once.', 'duplicate_field');
  }
  if ((gateway?.kind('models') ?? 'null') !== 'null') throw furtherModelsRefused('providerOptions.gateway.models');
}

const svgFields = fieldSet('model');

/** Refuses the model that would write the SVG of an image, beside the one that draws it (OpenAI). */
export function refuseSvgModel<Name extends string>(scan: ObjectScan<Name | 'svg'>): void {
  const svg = objectIn(scan, 'svg', svgFields);
  if (svg?.ambiguous) throw invalidRequest('svg.model', '`svg.model` is given more than once.', 'duplicate_field');
  if ((svg?.kind('model') ?? 'null') !== 'null') throw furtherModelsRefused('svg.model');
}

/** The object in a member of one that is well-formed; null: there is none. */
function objectIn<Outer extends string, Inner extends string>(
  scan: ObjectScan<Outer>,
  name: Outer,
  fields: FieldSet<Inner>,
): ObjectScan<Inner> | null {
  if (scan.kind(name) !== 'object') return null;
  const { valueStart, valueEnd } = scan.member(name)!;
  const inner = new ObjectScan(fields);
  inner.read(scan.bytes, valueStart, valueEnd);
  return inner;
}
