import type { ParseArgsOptionsConfig } from 'node:util';
import type { Timestamp } from '@bufbuild/protobuf/wkt';
import type { CallOptions, Client } from '@connectrpc/connect';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { JobsService } from '#gen/modelgateway/jobs/v1/jobs_service_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { UsageService } from '#gen/modelgateway/usage/v1/usage_service_pb.ts';
import { requestIdFor } from '#shared/ids.ts';
import { parseDay, readIsoTime } from '#shared/iso-time.ts';
import { amountMax, type NanoUsd, parseUsd, usdText } from '#shared/money.ts';
import type { PlainPageInfo } from '#shared/page.ts';
import type { Bootstrapped } from '../bootstrap.ts';

/** What commands work with. */
export type AdminContext = {
  auth: Client<typeof AuthService>;
  billing: Client<typeof BillingService>;
  jobs: Client<typeof JobsService>;
  keys: Client<typeof KeysService>;
  models: Client<typeof ModelsService>;
  usage: Client<typeof UsageService>;
  /** Makes each call as a platform operator. */
  asOperator: CallOptions;
  /** The URLs at which the services are expected. */
  services: readonly string[];
  /** Makes what a new gateway needs. */
  bootstrap(): Promise<Pick<Bootstrapped, 'created' | 'email' | 'password'>>;
};

/** A command's arguments: positional and named ones. */
export type AdminArguments = {
  positionals: readonly string[];
  values: Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>;
};

/** A command's result. */
type AdminAnswer = {
  /** An object, or a list of them, of which `page` may be a part. */
  output: object | readonly object[];
  page?: PlainPageInfo | undefined;
  /** The fields that a table of the list has room for; all of them if missing. */
  columns?: readonly string[];
  /** Makes the program exit with 1. */
  isFailure?: boolean;
};

/** One command of the operators' command line. */
export type AdminCommand = {
  /** The words that call it, e.g. `organizations suspend`. */
  name: string;
  /** Its arguments, as the help shows them; more positional ones than these are refused. */
  usage: string;
  summary: string;
  options?: ParseArgsOptionsConfig;
  run(context: AdminContext, args: AdminArguments): Promise<AdminAnswer>;
};

/** A mistake in the arguments; the program reports it and shows the command's usage. */
export class UsageError extends Error {
  override name = 'UsageError';
}

/** The positional argument at an index. */
export function argument(args: AdminArguments, index: number, what: string): string {
  const value = args.positionals[index];
  if (value === undefined || value === '') throw new UsageError(`${what} is missing`);
  return value;
}

/** A named argument; empty if it was not given. */
export const textOption = (args: AdminArguments, name: string): string => {
  const value = args.values[name];
  return typeof value === 'string' ? value : '';
};

/** A named argument that the command cannot do without. */
export function required(args: AdminArguments, name: string): string {
  const text = textOption(args, name);
  if (text === '') throw new UsageError(`--${name} is missing`);
  return text;
}

/** A named argument that is one of several names; undefined if it was not given. */
export function choice<Name extends string>(
  args: AdminArguments,
  option: string,
  names: readonly Name[],
): Name | undefined {
  const text = textOption(args, option);
  return text === '' ? undefined : oneOf(names, text, option);
}

/** A named argument that lists some of several names, with commas between them; empty if it was not given. */
export function choices<Name extends string>(args: AdminArguments, option: string, names: readonly Name[]): Name[] {
  const text = textOption(args, option);
  return text === '' ? [] : text.split(',').map((one) => oneOf(names, one, option));
}

function oneOf<Name extends string>(names: readonly Name[], text: string, option: string): Name {
  const name = names.find((one) => one === text);
  if (name === undefined) throw new UsageError(`--${option} must be one of ${names.join(', ')}`);
  return name;
}

/** An ISO 8601 time with its zone, or a date, which means 00:00 UTC of that day. */
export function timeNamed(text: string): Timestamp {
  const time = readIsoTime(text);
  if (time === undefined) throw new UsageError('a time is written like 2030-01-31 or 2030-01-31T12:00:00Z');
  return time;
}

/** A named argument that is a time, as `timeNamed` reads it; undefined if it was not given. */
export function timeOption(args: AdminArguments, name: string): Timestamp | undefined {
  const text = textOption(args, name);
  return text === '' ? undefined : timeNamed(text);
}

/** A named argument that is a day; empty if it was not given. */
export function dayOption(args: AdminArguments, name: string): string {
  const text = textOption(args, name);
  if (text !== '' && parseDay(text) === null) throw new UsageError(`--${name} must be a day like 2030-01-31`);
  return text;
}

/** An amount in USD, by default at most a billion. No command takes one below 0. */
export function usdNamed(text: string, allowed: 'above 0' | 'from 0', max: NanoUsd = amountMax): NanoUsd {
  const amount = parseUsd(text);
  if (amount === null || amount > max || amount < (allowed === 'from 0' ? 0n : 1n)) {
    throw new UsageError(
      `\`${text}\` is not an amount in USD ${allowed}, at most ${usdText(max)}, with at most nine decimals`,
    );
  }
  return amount;
}

/** The id of an organization, which must exist: Billing, Keys and Usage know organizations only by their ids, and would accept any. */
export async function existingOrganization({ auth, asOperator }: AdminContext, args: AdminArguments): Promise<string> {
  const tenantId = argument(args, 0, "the organization's id");
  await auth.adminGetOrganization({ tenantId }, asOperator);
  return tenantId;
}

/** The option of what must not happen twice: the program gives it a value if the operator does not. */
export const idempotencyOptions: ParseArgsOptionsConfig = { 'idempotency-key': { type: 'string' } };

/** The Idempotency-Key of a request that has one. */
export const idempotencyKeyOf = (args: AdminArguments): string => required(args, 'idempotency-key');

/** The request_id of a movement of money. */
export const requestIdOf = (args: AdminArguments): string => requestIdFor('', idempotencyKeyOf(args));

export const pageOptions: ParseArgsOptionsConfig = { page: { type: 'string' }, limit: { type: 'string' } };

/** The page chosen by `--page` and `--limit`. */
export function pageOf(args: AdminArguments): { page: number; limit: number } {
  return { page: wholeNumber(args, 'page', 1_000_000) ?? 1, limit: wholeNumber(args, 'limit', 100) ?? 100 };
}

/** A named number from `min` to `max`; undefined if it was not given. @throws UsageError for anything else. */
export function wholeNumber(args: AdminArguments, name: string, max: number, min = 1): number | undefined {
  const text = textOption(args, name);
  if (text === '') return undefined;
  // Number takes blanks for 0.
  const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
  if (!Number.isInteger(value) || value < min || value > max) {
    throw new UsageError(`--${name} must be a whole number from ${min} to ${max}`);
  }
  return value;
}
