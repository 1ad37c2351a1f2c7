import { Ajv, type ValidateFunction } from 'ajv';
import type { FastifyInstance, FastifySchema } from 'fastify';

/**
 * Bodies are taken as they are: no coercion, no defaults, no removal, so that a wrong type is an error and an unknown field is
 * named. Queries and paths are text, so their numbers and booleans are read from it. Responses are written by JSON.stringify,
 * which keeps the exact decimals of money.
 */
export function installValidation(app: FastifyInstance): void {
  const strict = new Ajv({
    coerceTypes: false,
    removeAdditional: false,
    useDefaults: false,
    allErrors: false,
    strict: false,
  });
  const coercing = new Ajv({
    coerceTypes: 'array',
    removeAdditional: false,
    useDefaults: true,
    allErrors: false,
    strict: false,
  });
  app.setValidatorCompiler<FastifySchema>(({ schema, httpPart }) => {
    const validator = httpPart === 'body' ? strict : coercing;
    // Compiled when its route is first called: all of them together take a tenth of the process's start.
    let compiled: ValidateFunction | undefined;
    const validate = (data: unknown): boolean => {
      compiled ??= validator.compile(schema);
      const isValid = compiled(data);
      validate.errors = compiled.errors;
      return isValid;
    };
    validate.errors = undefined as ValidateFunction['errors'];
    return validate;
  });
  app.setSerializerCompiler(() => (data) => JSON.stringify(data));
}
