import type { ParseArgsOptionsConfig } from 'node:util';
import type { CallOptions, Client } from '@connectrpc/connect';
import type { AuthService } from '#gen/modelgateway/auth/v1/auth_service_pb.ts';
import type { BillingService } from '#gen/modelgateway/billing/v1/billing_service_pb.ts';
import type { PageInfo } from '#gen/modelgateway/common/v1/pagination_pb.ts';
import type { KeysService } from '#gen/modelgateway/keys/v1/keys_service_pb.ts';
import type { ModelsService } from '#gen/modelgateway/models/v1/models_service_pb.ts';
import type { Bootstrapped } from '../bootstrap.ts';

/** What commands work with. */
export type AdminContext = {
  auth: Client<typeof AuthService>;
  billing: Client<typeof BillingService>;
  keys: Client<typeof KeysService>;
  models: Client<typeof ModelsService>;
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

/** A command's result: an object or a list of them, of which `page` may be a part; `isFailure` makes the program exit with 1. */
type AdminAnswer = { output: object | readonly object[]; page?: PageInfo | undefined; isFailure?: boolean };

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

export const pageOptions: ParseArgsOptionsConfig = { page: { type: 'string' }, limit: { type: 'string' } };

/** The page chosen by `--page` and `--limit`. */
export function pageOf(args: AdminArguments): { page: number; limit: number } {
  return { page: wholeNumber(args, 'page', 1_000_000) ?? 1, limit: wholeNumber(args, 'limit', 100) ?? 100 };
}

/** A named number from 1 to `max`; undefined if it was not given. @throws UsageError for anything else. */
export function wholeNumber(args: AdminArguments, name: string, max: number): number | undefined {
  const text = textOption(args, name);
  if (text === '') return undefined;
  const value = Number(text);
  if (!Number.isInteger(value) || value < 1 || value > max) {
    throw new UsageError(`--${name} must be a whole number from 1 to ${max}`);
  }
  return value;
}
