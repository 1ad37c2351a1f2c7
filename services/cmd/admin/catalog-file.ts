import { fromJson, type JsonObject, type JsonValue } from '@bufbuild/protobuf';
import { parse } from 'yaml';
import { type ImportedModel, ImportedModelSchema } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { usdFromNumber } from '#shared/money.ts';
import { UsageError } from './command.ts';

/** A rate of the file, as /api/v1 spells it, and its field in PriceRates. */
const rates: Readonly<Record<string, string>> = {
  input_per_million_tokens_usd: 'input_per_million_nano_usd',
  cached_input_per_million_tokens_usd: 'cached_input_per_million_nano_usd',
  output_per_million_tokens_usd: 'output_per_million_nano_usd',
  per_image_usd: 'per_image_nano_usd',
  per_audio_second_usd: 'per_audio_second_nano_usd',
  per_million_characters_usd: 'per_million_characters_nano_usd',
  per_request_usd: 'per_request_nano_usd',
};

/**
 * Reads a catalog file: `models`, each with the fields of POST /api/v1/admin/models, `deployments` with those of
 * /admin/deployments, and `price` with those of /admin/prices. A mistake is told with its place.
 */
export function parseCatalog(text: string): ImportedModel[] {
  let file: unknown;
  try {
    file = parse(text);
  } catch (error) {
    throw new UsageError(`the file is not valid YAML: ${(error as Error).message}`);
  }
  const { models, ...others } = objectAt(file, 'the file');
  const [other] = Object.keys(others);
  if (other !== undefined) throw new UsageError(`${other}: unknown field; the file has \`models\` alone`);
  return listAt(models, 'models').map((model, index) => importedModel(model, `models[${index}]`));
}

function importedModel(value: unknown, place: string): ImportedModel {
  const { name, deployments = [], price, ...settings } = objectAt(value, place);
  return read(
    {
      name: name as JsonValue,
      settings: withEnums(settings, { visibility: 'VISIBILITY', operations: 'OPERATION' }),
      deployments: listAt(deployments, `${place}.deployments`).map((deployment, index) =>
        withEnums(objectAt(deployment, `${place}.deployments[${index}]`), { dialect: 'UPSTREAM_DIALECT' }),
      ),
      ...(price !== undefined && { price: ratesOf(objectAt(price, `${place}.price`), `${place}.price`) }),
    },
    place,
  );
}

function read(json: JsonObject, place: string): ImportedModel {
  try {
    return fromJson(ImportedModelSchema, json);
  } catch (error) {
    throw new UsageError(`${place}: ${(error as Error).message}`);
  }
}

/** Spells enum values as protobuf's JSON form does: `chat_completions` becomes `OPERATION_CHAT_COMPLETIONS`. */
function withEnums(fields: JsonObject, prefixes: Readonly<Record<string, string>>): JsonObject {
  const spelled = (prefix: string, value: JsonValue): JsonValue =>
    typeof value === 'string' ? `${prefix}_${value.toUpperCase()}` : value;
  return Object.fromEntries(
    Object.entries(fields).map(([field, value]) => {
      const prefix = prefixes[field];
      if (prefix === undefined) return [field, value];
      return [field, Array.isArray(value) ? value.map((one) => spelled(prefix, one)) : spelled(prefix, value)];
    }),
  );
}

function ratesOf(price: JsonObject, place: string): JsonObject {
  return Object.fromEntries(
    Object.entries(price).map(([field, value]) => {
      const rate = rates[field];
      if (rate === undefined) throw new UsageError(`${place}.${field}: unknown field`);
      const nanoUsd = typeof value === 'number' ? usdFromNumber(value) : null;
      if (nanoUsd === null || nanoUsd < 0n) {
        throw new UsageError(`${place}.${field}: expected an amount in USD from 0 with at most nine decimals`);
      }
      return [rate, nanoUsd.toString()];
    }),
  );
}

function objectAt(value: unknown, place: string): JsonObject {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new UsageError(`${place}: expected fields`);
  }
  return value as JsonObject;
}

function listAt(value: unknown, place: string): unknown[] {
  if (!Array.isArray(value)) throw new UsageError(`${place}: expected a list`);
  return value;
}
