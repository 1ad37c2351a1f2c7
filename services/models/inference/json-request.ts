import { asBuffer } from '#shared/as-buffer.ts';
import { invalidRequest } from '#shared/errors.ts';
import { textsIn } from '../bytes/array-items.ts';
import {
  clientLimits,
  type FieldSet,
  fieldSet,
  type ObjectScan,
  type ScanProblem,
  scanObject,
} from '../bytes/json-scan.ts';
import { type MemberEdit, spliceMembers } from '../bytes/splice.ts';
import { type FurtherModels, furtherModels, furtherModelsRefused, refuseModelsInOptions } from './further-models.ts';

const problems: Readonly<Record<ScanProblem, string>> = {
  encoding: 'The request body is not valid UTF-8.',
  syntax: 'The request body is not valid JSON.',
  depth: 'The request body is nested too deeply.',
  size: `The request body has more than ${clientLimits.names} members or ${clientLimits.elements} array elements.`,
  not_object: 'The request body must be a JSON object.',
};

/** Fields that no request may have, or not with everything that an upstream would take there. */
type GuardedField = FurtherModels | 'providerOptions';

/** The fields of a request that `readJsonRequest` looks for. */
export const requestFields = <const Name extends string>(...names: Name[]): FieldSet<Name | GuardedField> =>
  fieldSet<Name | GuardedField>(...names, ...furtherModels, 'providerOptions');

/** Finds the fields that the gateway reads in a JSON body; the rest reaches the upstream untouched. */
export function readJsonRequest<Name extends string>(
  body: Uint8Array,
  fields: FieldSet<Name | GuardedField>,
): ObjectScan<Name | GuardedField> {
  const scan = scanObject(asBuffer(body), fields);
  if (typeof scan === 'string') throw invalidRequest(undefined, problems[scan]);
  if (scan.ambiguous !== null) {
    throw invalidRequest(scan.ambiguous, `\`${scan.ambiguous}\` is given more than once.`, 'duplicate_field');
  }
  for (const name of furtherModels) {
    if ((scan.kind(name) ?? 'null') !== 'null') throw furtherModelsRefused(name);
  }
  refuseModelsInOptions(scan);
  return scan;
}

/** The model that a request names. */
export function requiredModel<Name extends string>(scan: ObjectScan<Name | 'model'>): string {
  const model = scan.string('model');
  if (model !== undefined && model !== '') return model;
  if (scan.kind('model') === undefined || model === '') {
    throw invalidRequest('model', 'You must provide a `model`.', 'missing_required_field');
  }
  throw invalidRequest('model', '`model` must be a string.', 'invalid_value');
}

/** Whether `background` asks for a job; operations without such a field of their own accept only a boolean. */
export function asksForJob<Name extends string>(scan: ObjectScan<Name | 'background'>): boolean {
  return scan.has('background') && optionalBoolean(scan, 'background') === true;
}

/** The body for a deployment: with its name of the model, and without fields meant for the gateway. */
export function bodyForUpstream<Name extends string>(
  scan: ObjectScan<Name | 'model' | 'background'>,
  upstreamModel: string,
  further: readonly MemberEdit<Name | 'model' | 'background'>[] = [],
): readonly Uint8Array[] {
  const edits: MemberEdit<Name | 'model' | 'background'>[] = [['model', JSON.stringify(upstreamModel)]];
  // A boolean is the gateway's own (openai-contract.md section 6); `transparent` and the like are for the upstream.
  if (scan.boolean('background') !== undefined) edits.push(['background', null]);
  edits.push(...further);
  return spliceMembers(scan, edits);
}

/** An optional boolean; null counts as absent, anything else is refused. */
export function optionalBoolean<Name extends string>(scan: ObjectScan<Name>, name: Name): boolean | undefined {
  const kind = scan.kind(name);
  if (kind === undefined || kind === 'null') return undefined;
  if (kind !== 'boolean') throw invalidRequest(name, `\`${name}\` must be true or false.`, 'invalid_value');
  return scan.boolean(name);
}

/** An optional whole number within bounds; null counts as absent. */
export function optionalInteger<Name extends string>(
  scan: ObjectScan<Name>,
  name: Name,
  min: number,
  max: number,
): number | undefined {
  const kind = scan.kind(name);
  if (kind === undefined || kind === 'null') return undefined;
  const value = scan.number(name);
  if (value === undefined || !Number.isInteger(value) || value < min || value > max) {
    throw invalidRequest(name, `\`${name}\` must be a whole number from ${min} to ${max}.`, 'invalid_value');
  }
  return value;
}

/** The number of prompts in a field, each of which is answered separately. */
export function promptsIn<Name extends string>(scan: ObjectScan<Name>, name: Name): number {
  if (scan.kind(name) !== 'array') return 1;
  const { valueStart, valueEnd } = scan.member(name)!;
  return textsIn(scan.bytes, valueStart, valueEnd);
}
