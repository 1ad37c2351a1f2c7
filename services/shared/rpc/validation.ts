import type { DescMessage, MessageShape } from '@bufbuild/protobuf';
import { pathToString } from '@bufbuild/protobuf/reflect';
import { createValidator } from '@bufbuild/protovalidate';
import { invalidRequest } from '../errors.ts';

/** Checks a message against the rules of its proto; throws INVALID_REQUEST with the field's path in the public API. */
export type ValidateMessage = <Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>) => void;

/** Compiles the rules of each message once: it is the process's own, since they are the same for whatever runs in it. */
const validator = createValidator({ failFast: true });

export const validateMessage: ValidateMessage = (schema, message) => {
  const result = validator.validate(schema, message);
  if (result.kind === 'valid') return;
  if (result.kind === 'error') throw result.error;
  const violation = result.violations[0]!;
  // The public API has the fields of settings beside the others.
  const param = pathToString(violation.field).replace(/(^|\.)settings\./, '$1');
  // Some messages begin with what is at fault, others with what is wrong about it.
  const fault = violation.message
    .replace(/^(map|(repeated )?value) /, '')
    .replace(/^exactly one field is required in oneof$/, 'must have exactly one of its fields');
  throw invalidRequest(
    param || undefined,
    param ? `Invalid value for \`${param}\`: it ${fault}.` : `${violation.message}.`,
    'invalid_value',
  );
};
