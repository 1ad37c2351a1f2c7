import { keyTypeOfScope, type Scope } from '#shared/scopes.ts';
import { shellWord } from '#shared/shell-word.ts';

/** The parts of an OpenAPI 3.1 document that the page reads. */
export type ApiDescription = {
  paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  components: { schemas: Schemas };
};
type Described = {
  operationId: string;
  summary: string;
  description: string;
  tags: readonly [string];
  security: readonly Readonly<Record<string, readonly string[]>>[];
  parameters?: readonly Parameter[];
  requestBody?: { content: Content };
  responses: Readonly<Record<string, { description: string; content?: Content }>>;
};
export type Operation = Described & { method: string; path: string };
type Parameter = { name: string; in: string; required?: boolean; description?: string; schema: Schema };
export type Content = Readonly<Record<string, { schema: Schema }>>;
export type Schemas = Readonly<Record<string, Schema>>;
export type Schema = {
  $ref?: string;
  type?: string;
  format?: string;
  description?: string;
  default?: unknown;
  const?: unknown;
  enum?: readonly unknown[];
  anyOf?: readonly Schema[];
  items?: Schema;
  properties?: Readonly<Record<string, Schema>>;
  required?: readonly string[];
  minimum?: number;
  maximum?: number;
  maxLength?: number;
  maxItems?: number;
};

/** Every operation, in the document's order. */
export const operationsOf = ({ paths }: ApiDescription): readonly Operation[] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, described]) => ({ ...described, method: method.toUpperCase(), path })),
  );

const nameOf = ($ref: string): string => $ref.slice($ref.lastIndexOf('/') + 1);
const isNull = ({ type }: Schema): boolean => type === 'null';

/** The type of a schema, in a few words. */
export function typeName(schema: Schema): string {
  const { $ref, anyOf, items, type, format } = schema;
  if ($ref !== undefined) return nameOf($ref);
  if (anyOf !== undefined) return anyOf.map(typeName).join(' or ');
  if (schema.enum !== undefined) return schema.enum.map((value) => JSON.stringify(value)).join(' or ');
  if ('const' in schema) return JSON.stringify(schema.const);
  if (items !== undefined) return `list of ${typeName(items)}${boundsOf(schema)}`;
  return (formats[format ?? ''] ?? type ?? 'anything') + boundsOf(schema);
}

const formats: Readonly<Record<string, string>> = { 'date-time': 'time', uuid: 'UUID', binary: 'file' };

/** The bounds beyond which a value is refused. */
function boundsOf({ minimum, maximum, maxLength, maxItems }: Schema): string {
  if (minimum !== undefined) return maximum === undefined ? ` from ${minimum}` : ` from ${minimum} to ${maximum}`;
  if (maximum !== undefined) return ` up to ${maximum}`;
  if (maxLength !== undefined) return ` of up to ${maxLength} characters`;
  return maxItems === undefined ? '' : `, up to ${maxItems}`;
}

/** The object that a schema describes, directly, as a list of them, or as either of these or null. */
export function objectOf(schema: Schema, schemas: Schemas): Schema | undefined {
  if (schema.$ref !== undefined) return objectOf(schemas[nameOf(schema.$ref)] ?? {}, schemas);
  if (schema.anyOf !== undefined) {
    const [one, ...others] = schema.anyOf.filter((part) => !isNull(part));
    return one === undefined || others.length > 0 ? undefined : objectOf(one, schemas);
  }
  if (schema.items !== undefined) return objectOf(schema.items, schemas);
  return schema.properties === undefined ? undefined : schema;
}

/** A minimal example of a schema, to start from. */
function exampleOf(schema: Schema, schemas: Schemas): unknown {
  if (schema.$ref !== undefined) return exampleOf(schemas[nameOf(schema.$ref)] ?? {}, schemas);
  if (schema.anyOf !== undefined) return exampleOf(schema.anyOf[0] ?? {}, schemas);
  if (schema.enum !== undefined) return schema.enum[0];
  if ('const' in schema) return schema.const;
  switch (schema.type) {
    case 'object':
      return Object.fromEntries(
        (schema.required ?? []).map((name) => [name, exampleOf(schema.properties?.[name] ?? {}, schemas)]),
      );
    case 'array':
      return [exampleOf(schema.items ?? {}, schemas)];
    case 'boolean':
      return true;
    case 'integer':
    case 'number':
      return 1;
    default:
      return schema.format === 'date-time' ? '2030-01-31T12:00:00Z' : '…';
  }
}

/** The variable of a credential. No key of either type is accepted where the other is needed, so they have different ones. */
function credentialFor({ apiKey }: Described['security'][number]): string {
  if (apiKey === undefined) return 'ACCESS_TOKEN';
  const isManagement = apiKey.some((scope) => keyTypeOfScope(scope as Scope) === 'management');
  return isManagement ? 'MANAGEMENT_KEY' : 'MODEL_GATEWAY_KEY';
}

/** A curl command. Credentials come from the environment, and so do the parameters that it cannot do without. */
export function curlOf(operation: Operation, schemas: Schemas, origin: string): string {
  const { method, path, security, parameters = [], requestBody } = operation;
  const asked = parameters.filter((parameter) => parameter.in === 'query' && parameter.required);
  const query = asked.map(({ name }) => `${name}=$${name.toUpperCase()}`).join('&');
  const pathname = path.replace(/\{(\w+)\}/g, (_, name: string) => `$${name.toUpperCase()}`);
  const address = origin + pathname + (query && `?${query}`);
  const lines = [`curl ${method === 'GET' ? '' : `-X ${method} `}"${address}"`];
  const [first] = security;
  if (first !== undefined) {
    lines.push(`-H "Authorization: Bearer $${credentialFor(first)}"`);
  }
  const { 'application/json': json, 'multipart/form-data': form } = requestBody?.content ?? {};
  if (json !== undefined) {
    const body = shellWord(JSON.stringify(exampleOf(json.schema, schemas)));
    lines.push('-H "Content-Type: application/json"', `-d ${body}`);
  } else if (form !== undefined) {
    for (const name of form.schema.required ?? []) lines.push(`-F ${name}=${name === 'file' ? '@speech.mp3' : '…'}`);
  }
  return lines.join(' \\\n  ');
}
