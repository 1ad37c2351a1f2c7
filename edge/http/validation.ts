import { Ajv, type Options, type ValidateFunction } from 'ajv';
import type { FastifyInstance, FastifySchema } from 'fastify';
import { Type } from 'typebox';

/**
 * Bodies are taken as they are: no coercion, no defaults, no removal, so that a wrong type is an error and an unknown field is named.
 * Queries and paths are text, so numbers and booleans are parsed from them. Responses are written by JSON.stringify, which keeps the exact
 * decimals of money. Formats, such as `uuid`, only document the API: the code that reads such a text refuses invalid ones in its own words.
 */
export function installValidation(app: FastifyInstance): void {
  const options: Options = {
    removeAdditional: false,
    allErrors: false,
    strict: false,
    validateFormats: false,
    // The test of the API's description checks that schemas are sound: here that would take longer than compiling them.
    meta: false,
    validateSchema: false,
  };
  const strict = new Ajv({ ...options, coerceTypes: false, useDefaults: false });
  const coercing = new Ajv({ ...options, coerceTypes: 'array', useDefaults: true });
  app.setValidatorCompiler<FastifySchema>(({ schema, httpPart }) => {
    const validator = httpPart === 'body' ? strict : coercing;
    // Compiled when its route is first called: compiling all takes a tenth of the process's start.
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

/**
 * Has the management routes that are registered from here on refuse query parameters that they do not declare: a report with a misspelt
 * filter would be one of everything. Where anybody may call, as from a link or by a webhook, others may have added some.
 */
export function refuseUnknownParameters(app: FastifyInstance): void {
  app.addHook('onRoute', (route) => {
    if (!route.url.startsWith('/api/v1/') || route.config?.access?.surface === 'public') return;
    const declared = route.schema?.querystring ?? Type.Object({});
    route.schema = { ...route.schema, querystring: { ...declared, additionalProperties: false } };
  });
}

type QuerySchema = { properties?: Readonly<Record<string, { type?: string }>> };

/**
 * The first parameter that Ajv would read as a number although it is not written in decimal digits: like JavaScript it accepts 1e1 and
 * 0x10.
 */
const oddNumber = ({ properties = {} }: QuerySchema, query: object): string | undefined =>
  Object.entries(query).find(
    ([name, text]) => properties[name]?.type === 'integer' && !/^-?\d+$/.test(String(text)),
  )?.[0];
