/**
 * The data layer: every request of the dashboard goes through `get` or `send`, to the public API alone.
 *
 * The session is a cookie that scripts cannot read. Requests that change something carry the CSRF token of
 * `GET /api/me`. An answer that is no success is an `ApiError`, and so is a connection that fails.
 */
import { ApiError, errorOf } from "./errors.js";
import { parseExact } from "./json.js";
import { isLong, LONG_MS } from "./long_calls.js";
import { connection, session } from "./store.js";

/** Longest wait for an answer. Long calls get more. */
const TIMEOUT_MS = 30_000;

/** @typedef {Record<string, string | number | boolean | null | undefined>} Query */

/**
 * Build a path from literal text and values, which are percent-encoded: path`/api/v1/why/${queue}`.
 * @param {TemplateStringsArray} strings
 * @param {...string} values
 */
export function path(strings, ...values) {
  return strings.reduce((text, part, index) => text + encodeURIComponent(values[index - 1] ?? "") + part);
}

/** @param {Query} query */
function queryText(query) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}

/**
 * Read something.
 * @template T
 * @param {string} where
 * @param {Query} [query]
 * @param {{signal?: AbortSignal, statuses?: number[], isExact?: boolean, isText?: boolean}} [options] `statuses`: also a
 *   good answer, as 503 of /health. `isExact`: numbers of payloads stay as they are written. `isText`: the answer is
 *   text, as that of /metrics/prometheus.
 * @returns {Promise<T>}
 */
export function get(where, query = {}, options = {}) {
  return request("GET", where + queryText(query), undefined, options);
}

/**
 * Change something.
 * @template T
 * @param {"POST" | "DELETE"} method
 * @param {string} where
 * @param {unknown} [body]
 * @param {{query?: Query, signal?: AbortSignal}} [options]
 * @returns {Promise<T>}
 */
export function send(method, where, body, options = {}) {
  return request(method, where + queryText(options.query ?? {}), body, options);
}

/**
 * @template T
 * @param {string} method
 * @param {string} url
 * @param {unknown} body
 * @param {{signal?: AbortSignal, statuses?: number[], isExact?: boolean, isText?: boolean}} options
 * @returns {Promise<T>}
 */
async function request(method, url, body, { signal, ...reading }) {
  refuseDots(url);
  // Not AbortSignal.any: a page that stays open would collect a signal per request at the one of its view.
  const limit = new AbortController();
  const end = () => limit.abort();
  const timer = setTimeout(end, isLong(method, url) ? TIMEOUT_MS + LONG_MS : TIMEOUT_MS);
  signal?.addEventListener("abort", end);
  try {
    signal?.throwIfAborted();
    const response = await fetch(url, { ...initOf(method, body, reading.isText), signal: limit.signal });
    const answer = await read(response, reading);
    connection.heard();
    return answer;
  } catch (error) {
    if (error instanceof ApiError) connection.heard();
    if (error instanceof ApiError || error instanceof SyntaxError || signal?.aborted) throw error;
    connection.lost();
    throw new ApiError("The broker does not answer.", { kind: "lost" });
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", end);
  }
}

/**
 * @param {string} method
 * @param {unknown} body
 * @param {boolean} [isText]
 * @returns {RequestInit}
 */
function initOf(method, body, isText) {
  /** @type {Record<string, string>} */
  const headers = { accept: isText ? "text/plain" : "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  // A proxy in front that logs users in wants the header as well, with any value.
  if (method !== "GET") headers["x-queen-csrf"] = session.get().me?.csrfToken ?? "1";
  return {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
    cache: "no-store",
    redirect: "error",
  };
}

/**
 * @template T
 * @param {Response} response
 * @param {{statuses?: number[], isExact?: boolean, isText?: boolean}} options
 * @returns {Promise<T>}
 */
async function read(response, { statuses = [], isExact = false, isText = false }) {
  if (response.ok || statuses.includes(response.status)) {
    if (isText) return /** @type {T} */ (await response.text());
    if (response.status === 204) return /** @type {T} */ (null);
    return isExact ? parseExact(await response.text()) : await response.json();
  }
  const error = await errorOf(response);
  if (error.kind === "login") session.end();
  throw error;
}

/**
 * Refuse a name that would change the path. A browser takes `..` for the folder above, however it is encoded: the seek
 * of a partition of that name would become one of its whole queue.
 * @param {string} url
 */
function refuseDots(url) {
  const name = url.replace(/\?.*/s, "").split("/").find((part) => part === "." || part === "..");
  if (name) throw new ApiError(`A browser cannot ask for the name "${name}". Use the queen command for it.`, { kind: "refused" });
}

/** Learn who we are; a 401 makes the shell show the login. */
export async function loadSession() {
  const me = await get("/api/me");
  session.begin(/** @type {import("./store.js").Me} */ (me));
}

/** @param {string} token */
export async function login(token) {
  const me = await send("POST", "/api/login", { token });
  session.begin(/** @type {import("./store.js").Me} */ (me));
}

export async function logout() {
  await send("POST", "/api/logout");
  session.end();
}
