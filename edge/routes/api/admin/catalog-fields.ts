import type { CallOptions, Client } from '@connectrpc/connect';
import { Type } from 'typebox';
import type { CatalogModel } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ErrorReason, gatewayError, invalidRequest } from '#shared/errors.ts';

export const modelNameSchema = Type.String({ minLength: 1, maxLength: 255 });
export const baseUrlSchema = Type.String({
  minLength: 1,
  maxLength: 2048,
  description: 'Including the version, such as `https://host/v1`.',
});
export const secretReferenceSchema = Type.Optional(
  Type.String({
    maxLength: 255,
    description: "Where an edge finds the upstream's API key: an environment variable, such as `env:UPSTREAM_API_KEY`.",
  }),
);

/** Operations and dialects are spelled as their enum values in lower case. */
const spelled = <Value extends number>(values: Readonly<Record<string, Value>>): ReadonlyMap<string, Value> =>
  new Map(
    Object.entries(values)
      .filter(([, value]) => value !== 0)
      .map(([name, value]) => [name.toLowerCase(), value]),
  );

const operations = spelled<Operation>(Operation);
const dialects = spelled<UpstreamDialect>(UpstreamDialect);

export const operationsSchema = Type.Array(Type.Enum([...operations.keys()]), {
  minItems: 1,
  maxItems: operations.size,
});
export const dialectSchema = Type.Enum([...dialects.keys()]);

export const operationsNamed = (names: readonly string[] | undefined): Operation[] => [
  ...new Set((names ?? []).map((name) => named(operations, name, 'operations'))),
];

export const dialectNamed = (name: string | undefined): UpstreamDialect =>
  name === undefined ? UpstreamDialect.UNSPECIFIED : named(dialects, name, 'dialect');

/** The public spelling of a dialect; OpenAI's when nobody chose one. */
export const dialectName = (dialect: UpstreamDialect | undefined): string =>
  [...dialects].find(([, value]) => value === dialect)?.[0] ?? 'openai';

function named<Value>(values: ReadonlyMap<string, Value>, name: string, param: string): Value {
  const value = values.get(name);
  if (value === undefined) {
    throw invalidRequest(
      param,
      `Invalid value for \`${param}\`: expected ${[...values.keys()].join(', ')}.`,
      'invalid_value',
    );
  }
  return value;
}

type Models = Client<typeof ModelsService>;

/** One model as operators see it. @throws MODEL_NOT_FOUND */
export async function catalogModel(models: Models, name: string, options: CallOptions): Promise<CatalogModel> {
  const answer = await models.adminListModels({ search: name, page: { limit: 1 } }, options);
  const [entry] = answer.models;
  if (entry === undefined || entry.model!.name !== name) {
    throw gatewayError(ErrorReason.MODEL_NOT_FOUND, 'No such model.', { param: 'model' });
  }
  return entry;
}

/** The whole catalog, by name; or one model of it. */
export async function catalogModels(models: Models, name: string, options: CallOptions): Promise<CatalogModel[]> {
  if (name !== '') return [await catalogModel(models, name, options)];
  const all: CatalogModel[] = [];
  for (let page = 1; ; page++) {
    const answer = await models.adminListModels({ page: { page, limit: 100 } }, options);
    all.push(...answer.models);
    if (!answer.pageInfo!.hasNext) return all;
  }
}
