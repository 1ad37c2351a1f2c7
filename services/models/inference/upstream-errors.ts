import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import type { UpstreamFailure, UpstreamHead } from '../upstream/upstream.ts';

/** The most of an upstream's error body that is read, in bytes. */
export const errorBytesMax = 64 * 1024;

/** Statuses with which an upstream says that the request itself is at fault. */
const refusals: ReadonlySet<number> = new Set([400, 409, 413, 415, 422]);

/** Upstreams that do not say `context_length_exceeded` say it in words: OpenAI and vLLM, llama.cpp, others. */
const contextOverflow = /maximum context length|exceeds the available context size|context window|prompt is too long/i;

/**
 * An upstream's error answer as one of ours (openai-contract.md section 2 and 4, quirks): integer and null codes, flat
 * bodies, HTML. What concerns the gateway's own credential or address is a fault of ours and is not told.
 */
export function upstreamError(head: UpstreamHead, body: Uint8Array): GatewayError {
  const said = readError(body);
  const internal = `upstream answered ${head.status}: ${said.message || Buffer.from(body).toString('utf8').slice(0, 300)}`;
  if (refusals.has(head.status)) {
    const message = said.message || 'The upstream refused the request as invalid.';
    if (said.code === 'context_length_exceeded' || contextOverflow.test(message)) {
      // LangChain recognises the overflow by these words.
      const text = /maximum context length/i.test(message)
        ? message
        : `${message} (This exceeds the model's maximum context length.)`;
      return gatewayError(ErrorReason.CONTEXT_LENGTH_EXCEEDED, text, { param: said.param, internal });
    }
    return gatewayError(ErrorReason.UPSTREAM_REFUSED, message, {
      param: said.param,
      internal,
      upstream: { status: head.status === 422 ? 400 : head.status, type: 'invalid_request_error', code: said.code },
    });
  }
  if (head.status === 429) {
    return gatewayError(
      ErrorReason.RATE_LIMITED,
      'The upstream of this model is at its rate limit. Try again shortly.',
      {
        retryAfterMs: retryAfterMs(head) ?? 1000,
        internal,
      },
    );
  }
  if (head.status === 503) {
    return gatewayError(ErrorReason.OVERLOADED, 'The upstream of this model is overloaded. Try again shortly.', {
      retryAfterMs: retryAfterMs(head) ?? 5000,
      internal,
    });
  }
  if (head.status === 504 || head.status === 408) return timeoutError(internal);
  return gatewayError(ErrorReason.UPSTREAM_ERROR, 'The upstream of this model failed.', { internal });
}

/** A failure below HTTP as one of ours. */
export function exchangeError(failure: UpstreamFailure): GatewayError {
  if (failure.kind === 'timeout') return timeoutError(failure.message);
  return gatewayError(ErrorReason.UPSTREAM_ERROR, 'The upstream of this model failed.', {
    internal: `${failure.kind}: ${failure.message}`,
  });
}

/** A failure of an upstream that had begun to answer. */
export const upstreamFailed = (internal: string): GatewayError =>
  gatewayError(ErrorReason.UPSTREAM_ERROR, 'The upstream of this model failed before its answer was complete.', {
    internal,
  });

const timeoutError = (internal: string): GatewayError =>
  gatewayError(ErrorReason.UPSTREAM_TIMEOUT, 'The upstream of this model did not answer in time.', { internal });

/** Whether another deployment may be tried: the upstream has not taken the request, or says that it cannot. */
export const mayTryElsewhere = (error: GatewayError, failure: UpstreamFailure | null): boolean =>
  failure !== null
    ? failure.kind !== 'timeout'
    : error.reason === ErrorReason.OVERLOADED ||
      error.reason === ErrorReason.RATE_LIMITED ||
      error.reason === ErrorReason.UPSTREAM_ERROR;

type SaidError = { message: string; param: string | undefined; code: string | undefined };

/** What an error body says, from `{error:{…}}`, `{error:"…"}`, a flat `{message}` or `{detail}`; HTML and the rest say nothing. */
export function readError(body: Uint8Array): SaidError {
  const nothing: SaidError = { message: '', param: undefined, code: undefined };
  let parsed: unknown;
  try {
    parsed = JSON.parse(Buffer.from(body).toString('utf8'));
  } catch {
    return nothing;
  }
  if (typeof parsed !== 'object' || parsed === null) return nothing;
  const outer = parsed as { error?: unknown; message?: unknown; detail?: unknown };
  const error =
    typeof outer.error === 'object' && outer.error !== null
      ? (outer.error as Record<string, unknown>)
      : (outer as Record<string, unknown>);
  const message = [outer.error, error.message, outer.message, outer.detail].find(
    (text) => typeof text === 'string' && text !== '',
  );
  return {
    message: ((message as string | undefined) ?? '').slice(0, 2000),
    param: typeof error.param === 'string' && error.param !== '' ? error.param : undefined,
    code: typeof error.code === 'string' && error.code !== '' ? error.code : undefined,
  };
}

/** Retry-After of an upstream in milliseconds; seconds only, since no upstream of ours sends a date. */
function retryAfterMs(head: UpstreamHead): number | undefined {
  const seconds = Number(head.header('retry-after') ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1000 : undefined;
}
