/**
 * What can go wrong with a request, as one type. A failed request is never a zero or an empty list.
 */

/** @typedef {"lost" | "login" | "forbidden" | "missing" | "busy" | "refused" | "broken"} FailureKind */

/** An answer that is no success, or no answer at all. */
export class ApiError extends Error {
  /**
   * @param {string} message One sentence for people: the server's own where there is one.
   * @param {{kind: FailureKind, status?: number, code?: string, errorId?: string, retryAfterS?: number}} facts
   */
  constructor(message, { kind, status = 0, code = "", errorId = "", retryAfterS = 0 }) {
    super(message);
    this.name = "ApiError";
    this.kind = kind;
    this.status = status;
    this.code = code;
    /** Stands in the broker's log beside the details. */
    this.errorId = errorId;
    this.retryAfterS = retryAfterS;
  }
}

/**
 * @param {number} status
 * @returns {FailureKind}
 */
export function kindOf(status) {
  if (status === 401) return "login";
  if (status === 403) return "forbidden";
  if (status === 404) return "missing";
  if (status === 429 || status === 503) return "busy";
  return status >= 500 ? "broken" : "refused";
}

/**
 * Make the error of an answer from its body, which has `error` and `code`.
 * @param {Response} response
 */
export async function errorOf(response) {
  /** @type {{error?: string, code?: string, errorId?: string, retryAfter?: number}} */
  let body = {};
  try {
    body = await response.json();
  } catch {
    // A proxy in between answers in HTML; its status has to do.
  }
  return new ApiError(body.error || `The server answered ${response.status} ${response.statusText}.`, {
    kind: kindOf(response.status),
    status: response.status,
    code: body.code ?? "",
    errorId: body.errorId ?? "",
    retryAfterS: body.retryAfter ?? Number(response.headers.get("retry-after") ?? 0),
  });
}

/**
 * Say an error in one sentence.
 * @param {unknown} error
 */
export function sentence(error) {
  return error instanceof Error ? error.message : String(error);
}
