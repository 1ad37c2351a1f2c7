import { isObject } from '#shared/is-object.ts';

/** How much of an upstream's error body is read, in bytes. */
export const errorBytesMax = 64 * 1024;

export type SaidError = {
  message: string;
  /**
   * What operators are told where there is no message; if the body has an error, only that, since the rest may be an answer, which must not
   * be logged.
   */
  quote: string;
  param: string | undefined;
  code: string | undefined;
  /** The HTTP status that its code or type stands for; undefined: none. */
  status: number | undefined;
  /** Whether its code or type says that the gateway's own account has no money left, or is barred, whatever the status. */
  isOfOwnAccount: boolean;
};

/** Types that OpenAI, Moonshot and LiteLLM, and codes that OpenAI, Zhipu, Alibaba and Groq, give to errors about such an account. */
const ownAccountNames: ReadonlySet<unknown> = new Set([
  'insufficient_quota',
  'exceeded_current_quota_error',
  'billing_not_active',
  'billing_hard_limit_reached',
  'credit_balance_exhausted',
  'organization_spend_limit_exceeded',
  'organization_usage_limit_exceeded',
  'project_spend_limit_exceeded',
  'budget_exceeded',
  '1113',
  'Arrearage',
  'organization_restricted',
]);

/** How LiteLLM begins if the budget is not that of the gateway's key, user or team, but of a `user` or tag that the call names. */
const namedBudget = /^(ExceededBudget: End User|Budget has been exceeded! Tag)=/;

/**
 * Codes and types that stand for a status. The code counts first, since an error about our key or our name for the model has the type of a
 * bad request.
 */
const statusesByName = new Map<unknown, number>([
  ['invalid_api_key', 401],
  ['model_not_found', 404],
  ['rate_limit_exceeded', 429],
  ['rate_limit_error', 429],
  ['context_length_exceeded', 400],
  // How OpenAI and Azure refuse the content of a request.
  ['moderation_blocked', 400],
  ['content_policy_violation', 400],
  ['content_filter', 400],
  ['image_generation_user_error', 400],
  ['invalid_request_error', 400],
  ['BadRequestError', 400],
]);

/**
 * What an error body says, in the form `{error:{…}}`, `{error:"…"}`, a flat `{message}` or `{detail}`, or Google's list of one; HTML and
 * anything else says nothing. `redact` removes secrets from the texts, which must be decoded by then: JSON may spell them in other ways.
 */
export function readErrorBody(body: string, redact: (text: string) => string): SaidError {
  const nothing: SaidError = {
    message: '',
    quote: redact(body).slice(0, 300),
    param: undefined,
    code: undefined,
    status: undefined,
    isOfOwnAccount: false,
  };
  let parsed: unknown;
  try {
    parsed = JSON.parse(body.replace(/^\ufeff/, ''));
  } catch {
    return nothing;
  }
  const answer: unknown = Array.isArray(parsed) ? parsed[0] : parsed;
  if (typeof answer !== 'object' || answer === null) return nothing;
  const outer = answer as { error?: unknown; message?: unknown; detail?: unknown };
  const error =
    typeof outer.error === 'object' && outer.error !== null
      ? (outer.error as Record<string, unknown>)
      : (outer as Record<string, unknown>);
  // Mistral puts FastAPI's list into its message.
  const complained = isObject(outer.message) ? outer.message.detail : outer.detail;
  const message = [outer.error, error.message, outer.message, outer.detail, complaints(complained)].find(
    (text) => typeof text === 'string' && text !== '',
  );
  const numeric = statusIn(error.code);
  const isOfOwnAccount = ownAccountNames.has(error.code) || ownAccountNames.has(error.type);
  return {
    message: redact((message as string | undefined) ?? '').slice(0, 2000),
    quote: outer.error ? redact(JSON.stringify({ error: outer.error })).slice(0, 300) : nothing.quote,
    // vLLM names a field by its path in the request.
    param: nameOrNone(error.param, redact)?.replace(/^body\./, ''),
    code: numeric === undefined ? nameOrNone(error.code, redact) : undefined,
    status: numeric ?? statusesByName.get(error.code) ?? statusesByName.get(error.type),
    isOfOwnAccount: isOfOwnAccount && !namedBudget.test(String(message)),
  };
}

/** The status in a code: a number in vLLM and llama.cpp, a string in LiteLLM. */
const statusIn = (code: unknown): number | undefined => (/^[45]\d\d$/.test(String(code)) ? Number(code) : undefined);

/** FastAPI's list of complaints, as `messages.0.role: Field required`. */
function complaints(detail: unknown): string {
  if (!Array.isArray(detail)) return '';
  const texts = detail.map((complaint: { loc?: unknown; msg?: unknown } | null) => {
    const place = Array.isArray(complaint?.loc) ? complaint.loc.filter(isPlaceInBody).join('.') : '';
    const text = typeof complaint?.msg === 'string' ? complaint.msg : '';
    return place === '' ? text : `${place}: ${text}`;
  });
  return texts.filter((text) => text !== '').join('; ');
}

const isPlaceInBody = (part: unknown): boolean =>
  typeof part === 'number' || (typeof part === 'string' && part !== 'body');

/** A code, or the path of a field: clients branch on it and usage events keep it. Anything else could have any length and content. */
const nameOrNone = (value: unknown, redact: (text: string) => string): string | undefined =>
  typeof value === 'string' && /^[\w.\-[\]]{1,64}$/.test(redact(value)) ? redact(value) : undefined;
