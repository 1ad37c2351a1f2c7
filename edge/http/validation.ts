import { Ajv, type Options, type ValidateFunction } from 'ajv';
import type { FastifyInstance, FastifySchema } from 'fastify';

/**
 * Bodies are taken as they are: no coercion, no defaults, no removal, so that a wrong type is an error and an unknown field is
 * named. Queries and paths are text, so their numbers and booleans are read from it. Responses are written by JSON.stringify,
 * which keeps the exact decimals of money. Formats, such as `uuid`, are for readers of the API's description: whoever reads such a text
 * refuses what is none in its own words.
 */
export function installValidation(app: FastifyInstance): void {
  const options: Options = {
    removeAdditional: false,
    allErrors: false,
    strict: false,
    validateFormats: false,
    // That the schemas are sound is for the test of the API's description to say: asked here, it takes longer than to compile them.
    meta: false,
    validateSchema: false,
  };
  const strict = new Ajv({ ...options, coerceTypes: false, useDefaults: false });
  const coercing = new Ajv({ ...options, coerceTypes: 'array', useDefaults: true });
  app.setValidatorCompiler<FastifySchema>(({ schema, httpPart }) => {
    const validator = httpPart === 'body' ? strict : coercing;
    // Compiled when its route is first called: all of them together take a tenth of the process's start.
    let compiled: ValidateFunction | undefined;
    const validate = (data: unknown): boolean => {
      const odd = httpPart === 'body' ? undefined : oddNumber(schema as QuerySchema, data as object);
      if (odd !== undefined) {
        validate.errors = [
          { instancePath: `/${odd}`, schemaPath: '', keyword: 'type', params: {}, message: 'must be integer' },
        ];
        return false;
      }
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

type QuerySchema = { properties?: Readonly<Record<string, { type?: string }>> };

/** The parameter that Ajv would read as a number though it is not written in decimal digits: it takes 1e1 and 0x10 as JavaScript does. */
const oddNumber = ({ properties = {} }: QuerySchema, query: object): string | undefined =>
  Object.entries(query).find(
    ([name, text]) => properties[name]?.type === 'integer' && !/^-?\d+$/.test(String(text)),
  )?.[0];
