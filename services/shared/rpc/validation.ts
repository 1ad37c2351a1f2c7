import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import { pathToString } from '@bufbuild/protobuf/reflect';
import { createValidator } from '@bufbuild/protovalidate';
import { invalidRequest, invalidValue } from '../errors.ts';
import { unstorableIn } from './unstorable.ts';

/**
 * Checks a message against the rules in its proto file, and for values that cannot be stored; throws INVALID_REQUEST with the field's path
 * in the public API.
 */
export type ValidateMessage = <Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>) => void;

/** Compiles the rules of each message once; shared by the whole process, since rules are constant. */
const validator = createValidator({ failFast: true });

export const validateMessage: ValidateMessage = (schema, message) => {
  const unstorable = unstorableIn(schema, message);
  if (unstorable !== undefined) throw invalidValue(publicPath(unstorable.path), `it ${unstorable.fault}`);
  const result = validator.validate(schema, message);
  if (result.kind === 'valid') return;
  if (result.kind === 'error') throw result.error;
  const violation = result.violations[0]!;
  const param = publicPath(pathToString(violation.field));
  // Some messages begin with the subject of the fault, others with the fault.
  const fault = violation.message
    .replace(/^(map|(repeated )?value) /, '')
    .replace(/^must be (at (?:least|most) \d+ (?:characters|bytes))/, 'must have $1')
    .replace(/ 1 (character|byte)s$/, ' 1 $1')
    // An enum's zero means that it was left out.
    .replace(/^must not be in list \[0\]$/, 'is required')
    .replace(/^does not match regex pattern/, 'does not match the pattern')
    .replace(/^exactly one field is required in oneof$/, 'must have exactly one of its fields');
  throw param
    ? invalidValue(param, `it ${fault}`)
    : invalidRequest(undefined, `${violation.message}.`, 'invalid_value');
};

/** In the public API the fields of `settings` are beside the others. */
const publicPath = (path: string): string => path.replace(/(^|\.)settings\./, '$1');
