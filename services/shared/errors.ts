import { ErrorReason, ErrorReasonSchema } from '#gen/modelgateway/common/v1/error_pb.ts';
import { messageOf } from './message-of.ts';

export { ErrorReason };

/** What a failure carries besides its reason and public text. */
export type GatewayErrorDetails = {
  /** The field at fault, in the public API's spelling. */
  param?: string;
  /** What operators read in the log; never shown to a client. */
  internal?: string;
  /** What operators find beside it in the log, by the log's names; never shown to a client. */
  logged?: Readonly<Record<string, string | undefined>>;
  /** How long a client should wait before it tries again, in milliseconds. */
  retryAfterMs?: number;
  /** When the budget that refused the request resets, in milliseconds since the Unix epoch. */
  resetsAtMs?: number;
  /** The parts of an upstream's error which a client may see. */
  upstream?: { status: number; type?: string; code?: string };
  /** A more specific public code than the reason's own. */
  code?: string;
  cause?: unknown;
};

/**
 * The one error class of the gateway: a reason for machines, a public text for clients, an internal text for operators. It crosses RPC
 * unchanged except for the internal text, and only error-table.ts and edge/openai/errors.ts turn it into HTTP.
 */
export class GatewayError extends Error {
  readonly reason: ErrorReason;
  readonly details: GatewayErrorDetails;

  constructor(reason: ErrorReason, publicText: string, details: GatewayErrorDetails = {}) {
    // A text that it quotes may have been cut between the halves of a character, or a client may have sent one alone.
    super(publicText.toWellFormed(), { cause: details.cause });
    this.name = 'GatewayError';
    this.reason = reason;
    this.details = details;
  }
}

/** Makes a GatewayError; reads better than `new` after `throw`. */
export const gatewayError = (reason: ErrorReason, publicText: string, details?: GatewayErrorDetails): GatewayError =>
  new GatewayError(reason, publicText, details);

/** A reason's name for the log, e.g. `NOT_FOUND`; its number if a newer service made it. */
export const reasonName = (reason: ErrorReason): string => ErrorReasonSchema.value[reason]?.localName ?? String(reason);

/** Whether something thrown is a GatewayError with this reason. */
export const hasReason = (thrown: unknown, reason: ErrorReason): thrown is GatewayError =>
  thrown instanceof GatewayError && thrown.reason === reason;

/** A field of the request is not acceptable. */
export const invalidRequest = (param: string | undefined, publicText: string, code?: string): GatewayError =>
  new GatewayError(ErrorReason.INVALID_REQUEST, publicText, { param, code });

/** The value of a field is not acceptable; `fault` says what is wrong with it, or what was expected. */
export const invalidValue = (param: string, fault: string): GatewayError =>
  invalidRequest(param, `Invalid value for \`${param}\`: ${fault}.`, 'invalid_value');

/** The resource does not exist, or belongs to somebody else: the two read the same. */
export const notFound = (what: string, details?: GatewayErrorDetails): GatewayError =>
  new GatewayError(ErrorReason.NOT_FOUND, `No such ${what}.`, details);

/** The organization is suspended: nothing that costs is begun for it. */
export const tenantSuspended = (): GatewayError =>
  new GatewayError(
    ErrorReason.TENANT_SUSPENDED,
    'Your organization is suspended. An owner or admin must restore the account; a new key does not help.',
  );

/** The same words for a model that does not exist and one that the organization may not know of. */
export const modelNotFound = (name: string): GatewayError =>
  new GatewayError(
    ErrorReason.MODEL_NOT_FOUND,
    `The model \`${name.slice(0, 255)}\` does not exist or you do not have access to it.`,
    { param: 'model' },
  );

/** The key's allowlist does not include the model. */
export const modelNotAllowed = (model: string): GatewayError =>
  new GatewayError(ErrorReason.MODEL_NOT_ALLOWED, `This API key may not use the model \`${model}\`.`, {
    param: 'model',
  });

/** An allowlist names a model that the organization of its owner cannot use. */
export const modelNotUsable = (model: string): GatewayError =>
  invalidValue('model_allowlist', `your organization has no model \`${model}\``);

/** The caller has left; the cause goes only to the log. */
export const cancelled = (cause?: Error): GatewayError =>
  new GatewayError(ErrorReason.CANCELLED, 'The request was cancelled.', cause && { internal: cause.message, cause });

/** The bare error for anything unexpected; the cause goes only to the log. */
export const internalError = (cause: unknown): GatewayError =>
  new GatewayError(
    ErrorReason.INTERNAL,
    'The gateway had an internal error. Quote the request id when you report it.',
    {
      cause,
      internal: messageOf(cause),
    },
  );
