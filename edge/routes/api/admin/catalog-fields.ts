import type { CallOptions, Client } from '@connectrpc/connect';
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import type { CatalogModel } from '#gen/modelgateway/models/v1/catalog_pb.ts';
import { UpstreamDialect } from '#gen/modelgateway/models/v1/model_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { ErrorReason, gatewayError } from '#shared/errors.ts';
import { type OperationName, operationsByName } from '#shared/operations.ts';
import { nameInPath } from '../../../http/name-in-path.ts';
import { spelling } from '../../../http/spelling.ts';

const modelNameLengthMax = 255;
export const modelNameSchema = Type.String({ minLength: 1, maxLength: modelNameLengthMax });
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

export const operations = spelling(operationsByName);
export const operationsSchema = Type.Array(operations.schema, { minItems: 1, maxItems: operations.names.length });

/** The operations with these names, each once. */
export const operationsNamed = (names: readonly OperationName[] = []): Operation[] =>
  [...new Set(names)].map((name) => operations.value(name));

export const dialects = spelling({
  openai: UpstreamDialect.OPENAI,
  vllm: UpstreamDialect.VLLM,
  llama_cpp: UpstreamDialect.LLAMA_CPP,
  ollama: UpstreamDialect.OLLAMA,
  local_ai: UpstreamDialect.LOCAL_AI,
  sandbox: UpstreamDialect.SANDBOX,
} satisfies Record<Lowercase<Exclude<keyof typeof UpstreamDialect, 'UNSPECIFIED'>>, UpstreamDialect>);

type Models = Client<typeof ModelsService>;

/** One model as operators see it; undefined if there is none. A search finds the model of that name first. */
export async function findCatalogModel(
  models: Models,
  name: string,
  options: CallOptions,
): Promise<CatalogModel | undefined> {
  const [entry] = (await models.adminListModels({ search: name, page: { limit: 1 } }, options)).models;
  return entry?.model?.name === name ? entry : undefined;
}

/** One model as operators see it. @throws MODEL_NOT_FOUND */
export async function catalogModel(models: Models, name: string, options: CallOptions): Promise<CatalogModel> {
  const entry = await findCatalogModel(models, name, options);
  if (entry === undefined) throw noSuchModel();
  return entry;
}

const noSuchModel = () => gatewayError(ErrorReason.MODEL_NOT_FOUND, 'No such model.', { param: 'model' });

/** The model that a path names. @throws MODEL_NOT_FOUND for what no model can be called. */
export function modelInPath(request: FastifyRequest): string {
  const name = nameInPath(request);
  if (name.length > modelNameLengthMax) throw noSuchModel();
  return name;
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
