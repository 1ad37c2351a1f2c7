/** A refusal or failure of the API, or of the connection to it. */
type ApiFailure = {
  /** The HTTP status; 0 when no answer came. */
  status: number;
  message: string;
  code: string | null;
  /** The request field or query parameter that is wrong. */
  param: string | null;
  requestId: string | null;
};

export class ApiError extends Error {
  readonly status: number;
  readonly code: string | null;
  readonly param: string | null;
  readonly requestId: string | null;

  constructor(failure: ApiFailure) {
    super(failure.message);
    this.name = 'ApiError';
    this.status = failure.status;
    this.code = failure.code;
    this.param = failure.param;
    this.requestId = failure.requestId;
  }
}

/** Whether trying again later may help: there was no answer, it came too late or too soon, or the gateway is at fault. */
export function isTransient(error: unknown): boolean {
  return error instanceof ApiError && ([0, 408, 429].includes(error.status) || error.status >= 500);
}

/** Reads the error body of a response; one that does not have the documented shape becomes a plain sentence. */
export async function errorOfResponse(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => null);
  const error = (body as { error?: Partial<ApiFailure> } | null)?.error;
  return new ApiError({
    status: response.status,
    message:
      typeof error?.message === 'string' ? error.message : `The gateway answered with status ${response.status}.`,
    code: typeof error?.code === 'string' ? error.code : null,
    param: typeof error?.param === 'string' ? error.param : null,
    requestId: response.headers.get('x-request-id'),
  });
}

/** Reads the body of a response. One that breaks off half-way counts as no answer. */
export async function bodyOf<Answer>(response: Response): Promise<Answer> {
  try {
    return (await response.json()) as Answer;
  } catch {
    throw unreachable();
  }
}

/** Reads the file in a response. What arrived before it broke off is discarded, since half a table looks like a whole one. */
export async function fileOf(response: Response): Promise<Blob> {
  try {
    return await response.blob();
  } catch {
    throw new ApiError({
      status: 0,
      message: 'The download broke off. Nothing was saved.',
      code: null,
      param: null,
      requestId: response.headers.get('x-request-id'),
    });
  }
}

export function unreachable(): ApiError {
  return new ApiError({
    status: 0,
    message: 'The gateway cannot be reached. Check your connection.',
    code: null,
    param: null,
    requestId: null,
  });
}

/** The error of a request that met the end of its session; by the time it is read, the user has signed in again. */
export function sessionEnded(): ApiError {
  return new ApiError({
    status: 401,
    message: 'Your session had ended, so this was not done. Try again.',
    code: null,
    param: null,
    requestId: null,
  });
}
