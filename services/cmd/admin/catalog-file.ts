import {
  create,
  type DescEnum,
  type DescField,
  type DescMessage,
  fromJson,
  type JsonObject,
  type JsonValue,
  type MessageShape,
} from '@bufbuild/protobuf';
import { isFieldError } from '@bufbuild/protobuf/reflect';
import { parse } from 'yaml';
import { DeploymentSettingsSchema, ModelSettingsSchema } from '#gen/modelgateway/models/v1/model_pb.ts';
import {
  type ImportedModel,
  ImportedModelSchema,
  type PriceChanges,
  PriceChangesSchema,
} from '#gen/modelgateway/models/v1/models_service_pb.ts';
import { isObject } from '#shared/is-object.ts';
import { usdFromNumber } from '#shared/money.ts';
import { ratesUsdMax } from '#shared/rates-json.ts';
import { UsageError } from './command.ts';

/** A rate of the file, as /api/v1 spells it, and its field in PriceChanges and PriceRates. */
export const rateFields: ReadonlyMap<keyof typeof ratesUsdMax, string> = new Map([
  ['input_per_million_tokens_usd', 'inputPerMillionNanoUsd'],
  ['cached_input_per_million_tokens_usd', 'cachedInputPerMillionNanoUsd'],
  ['output_per_million_tokens_usd', 'outputPerMillionNanoUsd'],
  ['per_image_usd', 'perImageNanoUsd'],
  ['per_audio_second_usd', 'perAudioSecondNanoUsd'],
  ['per_million_characters_usd', 'perMillionCharactersNanoUsd'],
  ['per_request_usd', 'perRequestNanoUsd'],
]);

/** The fields in which null stands for 0, as over REST. */
const unknownIfNull: readonly string[] = ['context_window', 'max_output_tokens'];

/**
 * Reads a catalog file: `models`, each with the fields of POST /api/v1/admin/models, `deployments` with those of /admin/deployments, and
 * `price` with the rates of /admin/prices that change. An error names the place of the mistake.
 */
export function parseCatalog(text: string): ImportedModel[] {
  let file: unknown;
  try {
    // YAML 1.2 has no `<<`, but files for other tools do.
    file = parse(text, { merge: true });
  } catch (error) {
    throw new UsageError(`the file is not valid YAML: ${(error as Error).message}`);
  }
  const { models, ...others } = objectAt(file, 'the file');
  const [other] = Object.keys(others);
  if (other !== undefined) throw new UsageError(`${other}: unknown field; the file may only have \`models\``);
  return listAt(models, 'models').map((model, index) => importedModel(model, `models[${index}]`));
}

function importedModel(value: unknown, place: string): ImportedModel {
  const { name, deployments = [], price, ...settings } = objectAt(value, place);
  if (typeof name !== 'string') throw new UsageError(`${place}.name: expected a string`);
  return create(ImportedModelSchema, {
    name,
    settings: read(ModelSettingsSchema, settings, place, ['name', 'deployments', 'price']),
    deployments: listAt(deployments, `${place}.deployments`).map((deployment, index) => {
      const placeOfOne = `${place}.deployments[${index}]`;
      return read(DeploymentSettingsSchema, objectAt(deployment, placeOfOne), placeOfOne);
    }),
    ...(price !== undefined && { priceChanges: ratesOf(objectAt(price, `${place}.price`), `${place}.price`) }),
  });
}

/** Reads a message whose fields and enum values are spelled as in /api/v1: `chat_completions`. `others` are fields read elsewhere. */
function read<Schema extends DescMessage>(
  schema: Schema,
  fields: JsonObject,
  place: string,
  others: readonly string[] = [],
): MessageShape<Schema> {
  const json = Object.fromEntries(
    Object.entries(fields).map(([name, value]) => {
      const field = schema.fields.find((one) => one.name === name);
      if (field === undefined) {
        throw new UsageError(
          `${place}.${name}: unknown field; expected one of ${[...others, ...schema.fields.map((one) => one.name)].join(', ')}`,
        );
      }
      const placeOfOne = `${place}.${name}`;
      // For its refusals, which name the place.
      if (field.message !== undefined) read(field.message, objectAt(value, placeOfOne), placeOfOne);
      if (field.enum !== undefined) return [name, enumJson(field, field.enum, value, placeOfOne)];
      if (value !== null) return [name, value];
      if (unknownIfNull.includes(name)) return [name, 0];
      // It would be read as a field that is not there, and the old value would stay without a word.
      throw new UsageError(`${placeOfOne}: expected a value; without the field, it stays as it is`);
    }),
  );
  try {
    return fromJson(schema, json);
  } catch (error) {
    const { cause } = error as Error;
    if (!isFieldError(cause)) throw error;
    throw new UsageError(`${place}.${cause.field().name}: ${cause.message}`);
  }
}

function enumJson({ fieldKind }: DescField, desc: DescEnum, value: JsonValue, place: string): JsonValue {
  if (fieldKind === 'list') {
    return listAt(value, place).map((one, index) => enumName(desc, one, `${place}[${index}]`));
  }
  return enumName(desc, value, place);
}

/** The protobuf name of a value: `OPERATION_CHAT_COMPLETIONS` for `chat_completions`. */
function enumName({ values }: DescEnum, value: unknown, place: string): string {
  const choices = values
    .filter(({ number }) => number !== 0)
    .map(({ name, localName }) => ({ name, spelled: localName.toLowerCase() }));
  const choice = choices.find(({ spelled }) => spelled === value);
  if (choice === undefined) {
    throw new UsageError(`${place}: expected one of ${choices.map(({ spelled }) => spelled).join(', ')}`);
  }
  return choice.name;
}

function ratesOf(price: JsonObject, place: string): PriceChanges {
  if (Object.keys(price).length === 0)
    throw new UsageError(`${place}: expected at least one rate; 0 means free of charge`);
  const json = Object.fromEntries(
    Object.entries(price).map(([field, value]) => {
      const name = field as keyof typeof ratesUsdMax;
      const rate = rateFields.get(name);
      if (rate === undefined) {
        throw new UsageError(`${place}.${field}: unknown field; expected one of ${[...rateFields.keys()].join(', ')}`);
      }
      // Null takes a rate back; only this one can be missing from a price.
      if (rate === 'cachedInputPerMillionNanoUsd' && value === null) return ['clearCachedInput', true];
      const nanoUsd = typeof value === 'number' ? usdFromNumber(value) : null;
      const usdMax = ratesUsdMax[name];
      if (nanoUsd === null || nanoUsd < 0n || Number(value) > usdMax) {
        throw new UsageError(
          `${place}.${field}: expected an amount in USD from 0 to ${usdMax}, with at most nine decimals`,
        );
      }
      return [rate, nanoUsd.toString()];
    }),
  );
  return fromJson(PriceChangesSchema, json);
}

function objectAt(value: unknown, place: string): JsonObject {
  if (!isObject(value)) throw new UsageError(`${place}: expected fields`);
  return value as JsonObject;
}

function listAt(value: unknown, place: string): JsonValue[] {
  if (!Array.isArray(value)) throw new UsageError(`${place}: expected a list`);
  return value;
}
