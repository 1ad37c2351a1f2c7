import { ErrorReason, type GatewayError, gatewayError } from '#shared/errors.ts';
import type { Verdict } from '../catalog/deployment-runtime.ts';
import { readErrorBody, type SaidError } from '../upstream/error-body.ts';
import type { Upstream, UpstreamFailure, UpstreamHead } from '../upstream/upstream.ts';

/** Statuses with which an upstream blames the request itself, and how clients are told: they would repeat a 409 or 422. */
const refusals: ReadonlyMap<number, { status: number; code?: string }> = new Map([
  [400, { status: 400 }],
  [409, { status: 400 }],
  [413, { status: 413, code: 'request_too_large' }],
  [415, { status: 415, code: 'unsupported_content_type' }],
  [422, { status: 400 }],
  [501, { status: 400 }],
]);

/** How upstreams that do not send `context_length_exceeded` word it: OpenAI and vLLM, llama.cpp, others. */
const contextOverflow = /maximum context length|exceeds the available context size|context window|prompt is too long/i;

/** A 403 of a provider, such as OpenRouter, that forbids the content; other 403s are about our own credential. */
const contentRefusal = /moderation|flagged|content[ _-]?(policy|filter|management)/i;

/** A 400 about our own account: how Google and xAI word it for the key, Google for the location, Anthropic for the money. */
const accountRefusal =
  /^(API key (not (valid|found)|expired)|Incorrect API key|User location is not supported|Your credit balance is too low)/i;

/** A 404 about our own name for the model, as OpenAI, vLLM and Ollama word it. */
const modelUnknown = /model_not_found|\bmodel\b.*(not exist|not found)/i;

/**
 * An upstream's error as one of ours (openai-contract.md section 2 and 4, quirks): integer and null codes, flat bodies, HTML. If it is
 * about the gateway's own credential or address, it is our fault and its text is withheld.
 */
function upstreamError(head: UpstreamHead, said: SaidError): GatewayError {
  const internal = `upstream answered ${head.status}: ${said.message || said.quote}`;
  const status = namedStatus(head, said);
  const isContent = status === 403 && contentRefusal.test(`${said.code} ${said.message}`);
  const refusal = refusals.get(isContent ? 400 : status);
  if (refusal !== undefined) {
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
      upstream: { type: 'invalid_request_error', code: said.code, ...refusal },
    });
  }
  if (status === 429) {
    return gatewayError(
      ErrorReason.RATE_LIMITED,
      'The upstream of this model is at its rate limit. Try again shortly.',
      {
        retryAfterMs: retryAfterMs(head) ?? 1000,
        internal,
      },
    );
  }
  if (status === 503) {
    return gatewayError(ErrorReason.OVERLOADED, 'The upstream of this model is overloaded. Try again shortly.', {
      retryAfterMs: retryAfterMs(head) ?? 5000,
      internal,
    });
  }
  if (status === 504 || status === 408) return timeoutError(internal);
  return upstreamFault(internal);
}

/** An error after a successful head counts as one with the status that it names, and one about our own account as a 402 or 401. */
function namedStatus(head: Pick<UpstreamHead, 'status'>, said: SaidError): number {
  if (said.isOfOwnAccount) return 402;
  const status = (head.status < 300 ? said.status : undefined) ?? head.status;
  return status === 400 && accountRefusal.test(said.message) ? 401 : status;
}

/** What an error that comes without a status says of our own account; null: it is about something else. */
export function saidOfOwnAccount(written: string, { redact }: Pick<Upstream, 'redact'>): string | null {
  const said = readErrorBody(written, redact);
  const status = namedStatus({ status: 200 }, said);
  return status === 401 || status === 402 ? said.message || said.quote : null;
}

/** A failure below HTTP as one of our errors. */
export function exchangeError(failure: UpstreamFailure): GatewayError {
  if (failure.kind === 'timeout') return timeoutError(failure.message);
  return upstreamFault(`${failure.kind}: ${failure.message}`);
}

/** An upstream failed, or answered what no upstream should; `internal` tells operators how. */
export const upstreamFault = (internal: string): GatewayError =>
  gatewayError(ErrorReason.UPSTREAM_ERROR, 'The upstream of this model failed.', { internal });

/** An upstream failed after it had begun to answer. */
export const upstreamFailed = (internal: string): GatewayError =>
  gatewayError(ErrorReason.UPSTREAM_ERROR, 'The upstream of this model failed before its answer was complete.', {
    internal,
  });

const timeoutError = (internal: string): GatewayError =>
  gatewayError(ErrorReason.UPSTREAM_TIMEOUT, 'The upstream of this model did not answer in time.', { internal });

/** Whether another deployment may be tried: the upstream has not accepted the request, or says that it cannot handle it. */
export const mayTryElsewhere = ({ reason }: GatewayError): boolean =>
  reason === ErrorReason.OVERLOADED || reason === ErrorReason.RATE_LIMITED || reason === ErrorReason.UPSTREAM_ERROR;

/** What a failed call says about its deployment. */
function verdictOf(error: GatewayError): Verdict {
  switch (error.reason) {
    case ErrorReason.UPSTREAM_ERROR:
    case ErrorReason.UPSTREAM_TIMEOUT:
    case ErrorReason.OVERLOADED:
      return { kind: 'bad', message: error.details.internal ?? error.message };
    case ErrorReason.RATE_LIMITED:
      return { kind: 'busy', retryAfterMs: error.details.retryAfterMs ?? 1_000 };
    default:
      // The upstream refused a bad request, or the client left.
      return { kind: 'good' };
  }
}

/** How an attempt failed. */
export type FailedAttempt = {
  error: GatewayError;
  /** What its upstream wrote, as far as that was an error. */
  said: string;
  /** What it says about the deployment. */
  verdict: Verdict;
};

/** A failure about which the upstream itself said nothing. */
export const failedBy = (error: GatewayError): FailedAttempt => ({ error, said: '', verdict: verdictOf(error) });

/** A failure that an upstream described. It says nothing about other calls if this one asks for something missing, such as an endpoint. */
export function failedAsSaid(
  { head, upstream }: { head: UpstreamHead; upstream: Pick<Upstream, 'redact'> },
  written: string,
): FailedAttempt {
  const said = readErrorBody(written, upstream.redact);
  const error = upstreamError(head, said);
  const status = namedStatus(head, said);
  const isOfThisCall = (status === 404 || status === 405) && !modelUnknown.test(written);
  return { error, said: written, verdict: isOfThisCall ? { kind: 'none' } : verdictOf(error) };
}

/** A failure that an upstream described in an event of a session, which has no status. */
export const failedInEvent = (written: string, upstream: Pick<Upstream, 'redact'>): FailedAttempt =>
  failedAsSaid({ head: { status: 200, header: () => undefined }, upstream }, written);

/** An upstream may ask for any wait; our clients wait no longer than this. */
const retryAfterSecondsMax = 60;

const httpDate = /^\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Retry-After of an upstream in milliseconds (RFC 9110 section 10.2.3): in seconds, or a time by the clock of the upstream. */
function retryAfterMs(head: UpstreamHead): number | undefined {
  const asked = head.header('retry-after');
  if (asked === undefined) return undefined;
  const seconds = httpDate.test(asked)
    ? Math.max(0, (Date.parse(asked) - Date.parse(head.header('date') ?? '')) / 1000)
    : Number(asked);
  return seconds >= 0 ? Math.min(seconds, retryAfterSecondsMax) * 1000 : undefined;
}
