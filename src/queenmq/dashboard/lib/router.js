/**
 * Routes in the hash: `#/queues/orders?tab=groups`. Every state worth a link is in there, and the server needs no
 * fallback. Names of queues are percent-encoded, so that a slash in one stays part of it.
 */
import { observable } from "./store.js";

/** @typedef {{path: string, parts: string[], query: Record<string, string>}} Location */

/** @param {string} hash @returns {Location} */
export function parseHash(hash) {
  const [rawPath = "", rawQuery = ""] = hash.replace(/^#/, "").split("?", 2);
  const parts = rawPath.split("/").filter(Boolean).map(decode);
  return { path: `/${parts.map(encodeURIComponent).join("/")}`, parts, query: Object.fromEntries(new URLSearchParams(rawQuery)) };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Build a link: link("queues", name, { tab: "groups" }).
 * @param {...(string | Record<string, string | number | null | undefined>)} parts The last one may be a query.
 */
export function link(...parts) {
  const last = parts.at(-1);
  const query = typeof last === "object" ? last : null;
  const names = /** @type {string[]} */ (query ? parts.slice(0, -1) : parts);
  const given = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${names.map(encodeURIComponent).join("/")}${text && `?${text}`}`;
}

const source = observable(parseHash(globalThis.location?.hash ?? ""));
globalThis.addEventListener?.("hashchange", () => source.set(parseHash(globalThis.location.hash)));

/** Where the reader is. */
export const location = { get: source.get, subscribe: source.subscribe };

/** @param {string} href */
export function go(href) {
  globalThis.location.hash = href;
}

/**
 * Change the query of this place without a new entry in the history: for filters and pages of tables.
 * @param {Record<string, string | number | null | undefined>} changes null removes one.
 */
export function setQuery(changes) {
  const { parts, query } = source.get();
  const href = link(...parts, { ...query, ...changes });
  history.replaceState(null, "", href);
  source.set(parseHash(href));
}

/**
 * Match a pattern such as "/queues/:queue"; the values of its names, or null.
 * @param {string} pattern
 * @param {string[]} parts
 */
export function match(pattern, parts) {
  const wanted = pattern.split("/").filter(Boolean);
  if (wanted.length !== parts.length) return null;
  /** @type {Record<string, string>} */
  const found = {};
  for (const [index, part] of wanted.entries()) {
    const given = parts[index] ?? "";
    if (part.startsWith(":")) found[part.slice(1)] = given;
    else if (part !== given) return null;
  }
  return found;
}
