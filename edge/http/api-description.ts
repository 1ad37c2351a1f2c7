import { STATUS_CODES } from 'node:http';
import swagger from '@fastify/swagger';
import type { FastifySchema, RouteOptions } from 'fastify';
import { type TSchema, Type } from 'typebox';
import type { Access } from '../access.ts';
import type { EdgeApp } from '../app.ts';
import { errorBodySchema } from '../openai/errors.ts';
import { noFields } from './bodies.ts';

declare module 'fastify' {
  interface FastifySchema {
    /** The schema of a query that is only described here; the code that reads it checks it. */
    uncheckedQuery?: unknown;
    /** Query parameters that are required, checked by the code that reads them. */
    requiredQuery?: readonly string[];
    /** Whether a repeat with the same `Idempotency-Key` gets the first answer again: within 24 hours, or however late. */
    idempotent?: boolean | 'however late';
    /** Whether it calls a model, or may do so in a job that it answers with. */
    callsModel?: boolean;
    /** Whether answers announce the retirement of the model they are about, as those of calls do. */
    announcesRetirement?: boolean;
  }
}

type Components = Record<string, object>;
type Schema = { type?: string; anyOf?: Schema[] };
type Content = Record<string, { schema: Schema }>;
type Operation = {
  requestBody?: { required: boolean; content: Content };
  responses: Record<string, { headers?: Record<string, object> }>;
};
type Document = { paths: Record<string, Record<string, Operation>>; components: object };

/**
 * Describes the public API in OpenAPI 3.1 by what each route declares where it is registered. A route is described once it has a `summary`,
 * which also gives its operation id: `Create a key` becomes `createKey`. Schemas with an `$id` become components.
 */
export async function describeApi(app: EdgeApp, publicUrl: string): Promise<void> {
  const components: Components = {};
  await app.register(swagger, {
    openapi: {
      openapi: '3.1.1',
      info: { title: 'Model Gateway', version: '1', description: introduction },
      servers: [{ url: publicUrl }],
      components: {
        securitySchemes: {
          apiKey: { type: 'http', scheme: 'bearer', description: 'An API key.' },
          session: {
            type: 'http',
            scheme: 'bearer',
            bearerFormat: 'JWT',
            description: 'The `access_token` from a login.',
          },
        },
      },
    },
    transformObject: (described) => {
      const { openapiObject } = described as unknown as { openapiObject: Document };
      const headers: Components = {};
      for (const operation of Object.values(openapiObject.paths).flatMap(Object.values)) {
        allowNoBody(operation);
        shareHeaders(operation, headers);
      }
      Object.assign(openapiObject.components, { schemas: components, headers });
      return openapiObject;
    },
    // Paths stand as they are called.
    stripBasePath: false,
    transform: ({ schema, url, route }) => {
      if (route.method === 'HEAD' || schema?.summary === undefined) return { schema: { hide: true }, url };
      return {
        schema: withReferences(described(schema, route), components) as FastifySchema,
        // The wildcard of a path that ends in a model's name.
        url: url.replace('*', ':model'),
      };
    },
  });
}

/** GET /openapi.json. */
export function descriptionRoute(app: EdgeApp): void {
  let text: Buffer | undefined;
  app.get(
    '/openapi.json',
    {
      config: { access: { surface: 'public' } },
      schema: { summary: 'Get this description', response: { 200: Type.Unknown() } },
    },
    // Serialized once, to bytes that all connections share: the description is public, and the same for everybody.
    (_request, reply) => {
      text ??= Buffer.from(JSON.stringify(app.swagger()));
      return reply.type('application/json; charset=utf-8').send(text);
    },
  );
}

const introduction = `Errors have the shape of \`Error\`. Times are ISO 8601 in UTC; amounts are exact decimals in USD.
Every response has an \`x-request-id\` header. Responses about a model that is being retired also have \`Deprecation\`, \`Link\` and, once a date is set, \`Sunset\`.
Management endpoints refuse fields of a body and query parameters that are not described here; those that need no credential ignore such parameters.
Inference works the same under \`/v1\` and \`/api/v1\`. \`/api/v1/usage\`, \`/api/v1/profile/rate-limits\` and \`/api/v1/auth/profile\` are
aliases of \`/api/v1/usage/current\`, \`/api/v1/rate-limits\` and \`/api/v1/profile\`.`;

function described(schema: FastifySchema, { url, config }: RouteOptions): FastifySchema {
  const { uncheckedBody, body = uncheckedBody, uncheckedQuery, requiredQuery, response, ...others } = schema;
  const { idempotent, callsModel, announcesRetirement, querystring = uncheckedQuery, ...rest } = others;
  const access = config!.access!;
  const answers = Object.entries({ ...(response as Record<string, TSchema>), default: errorBodySchema });
  return {
    ...rest,
    operationId: operationIdOf(schema.summary!),
    tags: [tagOf(url)],
    description: [schema.description, whoMayCall(access)].filter(Boolean).join('\n\n'),
    security: securityOf(access),
    ...(querystring !== undefined && {
      querystring: { ...(querystring as TSchema), ...(requiredQuery && { required: requiredQuery }) },
    }),
    ...(body !== undefined && body !== noFields && { body: inJson(body as TSchema) }),
    ...((idempotent || callsModel) && { headers: requestHeaders(schema) }),
    response: Object.fromEntries(
      answers.map(([status, answer]) => [
        status,
        { ...inJson(answer, STATUS_CODES[status] ?? 'An error'), headers: answerHeaders(schema, status) },
      ]),
    ),
  };
}

/** A schema means JSON, unless it says itself which type it has. */
const inJson = (schema: TSchema, description?: string): object =>
  'content' in schema || Type.IsNull(schema)
    ? { description, ...schema }
    : { description, content: { 'application/json': { schema } } };

/**
 * A body that may be null is described as optional, with the schema it has when present: client generators know no other way to leave a
 * body out. @fastify/swagger says of every body that it is required.
 */
function allowNoBody({ requestBody }: Operation): void {
  const content = requestBody?.content['application/json'];
  const given = content?.schema.anyOf?.filter(({ type }) => type !== 'null');
  if (given === undefined || given.length === content!.schema.anyOf!.length) return;
  requestBody!.required = false;
  content!.schema = given[0]!;
}

/** Makes a component of each header of an answer: a dozen operations have the same ten. */
function shareHeaders({ responses }: Operation, components: Components): void {
  for (const response of Object.values(responses)) {
    for (const [name, header] of Object.entries(response.headers ?? {})) {
      components[name] = header;
      response.headers![name] = { $ref: `#/components/headers/${name}` };
    }
  }
}

/** Makes a component of each schema with an `$id`, and replaces its uses by references. */
function withReferences(value: unknown, components: Components): unknown {
  if (Array.isArray(value)) return value.map((one) => withReferences(one, components));
  if (typeof value !== 'object' || value === null) return value;
  const { $id, ...rest } = value as { $id?: string };
  const schema: Record<string, unknown> = Object.fromEntries(
    Object.entries(rest)
      // Fields that are still accepted but no longer published.
      .filter(([, one]) => (one as { deprecated?: true } | undefined)?.deprecated !== true)
      .map(([name, one]) => [name, withReferences(one, components)]),
  );
  // TypeBox leaves the type out; client generators want it.
  if (Array.isArray(schema.enum)) schema.type ??= 'string';
  // Nor do generators understand TypeBox's way to write a map.
  const { patternProperties: patterns } = schema as { patternProperties?: Record<string, object> };
  if (patterns?.['^.*$'] !== undefined) {
    schema.additionalProperties = patterns['^.*$'];
    delete schema.patternProperties;
  }
  if ($id === undefined) return schema;
  components[$id] = schema;
  return { $ref: `#/components/schemas/${$id}` };
}

/** The headers that a request may have. */
function requestHeaders({ idempotent }: FastifySchema): TSchema {
  const repeated =
    idempotent === 'however late' ? 'with the same value, however late,' : 'with the same value within 24 hours';
  return Type.Object({
    'Idempotency-Key': Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 255,
        pattern: '^[!-~]+$',
        description: idempotent
          ? `Repeating the request ${repeated} returns the first response. Another request with it is refused with \`idempotency_key_reused\`.`
          : 'For a job: a repeat within 24 hours returns the same one. A call that is answered at once runs, and is charged, each time.',
      }),
    ),
    ...(!idempotent && {
      Prefer: Type.Optional(
        Type.String({ description: '`respond-async` makes the response a job, as `background` does.' }),
      ),
    }),
  });
}

/** The headers of an answer that tell clients what to do, as schemas. */
const answerHeaders = (
  { callsModel, announcesRetirement }: FastifySchema,
  status: string,
): Record<string, TSchema> => ({
  ...(status === 'default' && retryHeader),
  ...(callsModel && status === '202' && { ...jobHeaders, ...retryHeader }),
  ...((callsModel || announcesRetirement) && retirementHeaders),
  ...(callsModel && rateLimitHeaders),
});

const retryHeader = {
  'Retry-After': Type.Integer({
    description: 'In how many seconds to try again, if that may help, or to look at the job.',
  }),
};

const jobHeaders = { Location: Type.String({ description: 'The path of the job.' }) };

const retirementHeaders = {
  Deprecation: Type.String({
    description:
      "`@` and the Unix time in seconds at which the model's retirement was announced (RFC 9745); absent for any other model.",
  }),
  Sunset: Type.String({
    description:
      'When the model retires, such as `Sat, 30 Jan 2027 00:00:00 GMT` (RFC 8594); absent while no date is set.',
  }),
  Link: Type.String({
    description:
      'With `Deprecation`: a page about the retirement (`rel="deprecation"`) and, if there is one, the successor (`rel="successor-version"`).',
  }),
};

const rateLimitHeaders = Object.fromEntries(
  ['requests', 'tokens'].flatMap((what) => [
    [`x-ratelimit-limit-${what}`, Type.Integer({ description: `How many ${what} a minute may have.` })],
    [`x-ratelimit-remaining-${what}`, Type.Integer({ description: `How many ${what} are left now.` })],
    [
      `x-ratelimit-reset-${what}`,
      Type.String({ description: 'How long until all are, such as `20ms`, `1.2s` or `6m0s`.' }),
    ],
  ]),
);

const operationIdOf = (summary: string): string =>
  summary
    .toLowerCase()
    .replace(/\b(?:an?|the) /g, '')
    .replace(/[^a-z0-9]+(.)/g, (_, letter: string) => letter.toUpperCase())
    .replace(/[^a-zA-Z0-9]/g, '');

/** The resource that a path is about: its first part after the prefix; `inference` for what OpenAI's clients call. */
function tagOf(url: string): string {
  const [, platform, name] = /^(\/api)?\/v1\/([a-z-]+)/.exec(url) ?? [];
  if (url.startsWith('/.well-known/')) return 'auth';
  if (url.startsWith('/retirements/')) return 'models';
  if (name === undefined) return 'operation';
  return platform === undefined && name !== 'models' ? 'inference' : name;
}

function whoMayCall(access: Access): string {
  const role = 'role' in access ? ' of an admin or owner' : '';
  switch (access.surface) {
    case 'public':
      return 'Needs neither an API key nor a session.';
    case 'api':
      return `Needs an API key${role} with the scope \`${access.scope}\`, or a session${role}.`;
    case 'session':
      return `Needs a session${role}.`;
    case 'operator':
      return 'Needs a session of a platform operator.';
  }
}

/** The scope goes where OpenAPI expects the required role (OpenAPI 3.1, Security Requirement Object). */
function securityOf(access: Access): Record<string, string[]>[] {
  switch (access.surface) {
    case 'public':
      return [];
    case 'api':
      return [{ apiKey: [access.scope] }, { session: [] }];
    default:
      return [{ session: [] }];
  }
}
