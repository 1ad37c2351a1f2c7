import { type GatewayError, invalidRequest } from '#shared/errors.ts';
import { type FieldSet, fieldSet, ObjectScan } from '../bytes/json-scan.ts';

/**
 * Fields in which upstreams that route themselves take further models, to answer in place of one that fails: those of LiteLLM, the last of
 * which holds such lists among other settings, and those of OpenRouter, whose presets name models too. LiteLLM also lets the client say that
 * the first has failed. The caller's right to those models was not checked, nor would they be charged.
 */
export const furtherModels = [
  'models',
  'fallbacks',
  'context_window_fallbacks',
  'content_policy_fallbacks',
  'router_settings_override',
  'preset',
] as const;

export type FurtherModels = (typeof furtherModels)[number];

export const furtherModelsRefused = (name: FurtherModels | 'providerOptions.gateway.models'): GatewayError =>
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
