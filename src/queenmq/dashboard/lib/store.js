/**
 * Shared state: who is logged in, whether the broker answers, theme and time range. Small observable values.
 */
import { useEffect, useState } from "./ui.js";

/**
 * @typedef {{subject: string | null, kind: string, role: string | null, queues: string[] | null,
 *   verbs: string[] | null, expiresAt: string | null, csrfToken: string | null}} Me
 * @typedef {"system" | "light" | "dark"} Theme
 * @typedef {"15m" | "1h" | "6h" | "24h" | "7d"} RangeName
 */

/**
 * A value that tells its listeners when it changes.
 * @template T
 * @param {T} initial
 */
export function observable(initial) {
  let value = initial;
  /** @type {Set<(value: T) => void>} */
  const listeners = new Set();
  return {
    get: () => value,
    /** @param {T} next */
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const listener of [...listeners]) listener(value);
    },
    /** @param {(value: T) => void} listener */
    subscribe(listener) {
      listeners.add(listener);
      return () => void listeners.delete(listener);
    },
  };
}

/**
 * Use an observable in a component.
 * @template T
 * @param {{get: () => T, subscribe: (listener: (value: T) => void) => () => void}} source
 * @returns {T}
 */
export function useValue(source) {
  const [value, setValue] = useState(source.get);
  useEffect(() => {
    setValue(source.get());
    return source.subscribe((next) => setValue(() => next));
  }, [source]);
  return value;
}

/**
 * A choice that outlives the page. A browser that keeps nothing, as in private windows, only forgets it.
 * @template {string} T
 * @param {string} key
 * @param {readonly T[]} allowed The first one is the default.
 */
function remembered(key, allowed) {
  /** @type {string | null} */
  let saved = null;
  try {
    saved = localStorage.getItem(key);
  } catch {
    // Storage is switched off.
  }
  const first = /** @type {T} */ (allowed.includes(/** @type {T} */ (saved)) ? saved : allowed[0]);
  const source = observable(first);
  source.subscribe((value) => {
    try {
      localStorage.setItem(key, value);
    } catch {
      // Likewise.
    }
  });
  return source;
}

/** @type {readonly Theme[]} */
export const THEMES = ["system", "light", "dark"];
export const theme = remembered("queen.theme", THEMES);

export function applyTheme() {
  const apply = () => {
    document.documentElement.dataset.theme = theme.get();
  };
  theme.subscribe(apply);
  apply();
}

/** @type {Record<RangeName, {label: string, seconds: number}>} */
export const RANGES = {
  "1h": { label: "1 hour", seconds: 3_600 },
  "15m": { label: "15 min", seconds: 900 },
  "6h": { label: "6 hours", seconds: 21_600 },
  "24h": { label: "24 hours", seconds: 86_400 },
  "7d": { label: "7 days", seconds: 604_800 },
};
export const range = remembered("queen.range", /** @type {readonly RangeName[]} */ (Object.keys(RANGES)));

/** The chosen range as the API's `from` and `to`. */
export function rangeQuery() {
  const end = Date.now();
  const start = end - RANGES[range.get()].seconds * 1000;
  return { from: new Date(start).toISOString(), to: new Date(end).toISOString() };
}

/**
 * "unknown" until the first answer, "in" with `me`, "out" when the API answered 401.
 * @typedef {{state: "unknown" | "in" | "out", me: Me | null}} Session
 */
const sessionSource = observable(/** @type {Session} */ ({ state: "unknown", me: null }));
export const session = {
  ...sessionSource,
  /** @param {Me} me */
  begin: (me) => sessionSource.set({ state: "in", me }),
  end: () => sessionSource.set({ state: "out", me: null }),
};

const ROLES = ["read-only", "read-write", "admin"];

/**
 * Whether the caller's role includes this one. The broker checks again; this only greys out what it would refuse.
 * @param {"read-only" | "read-write" | "admin"} role
 * @param {Me | null} [me]
 */
export function may(role, me = session.get().me) {
  return me !== null && ROLES.indexOf(me.role ?? "") >= ROLES.indexOf(role);
}

/**
 * `retryAt`: when the next try is due, for a person who waits.
 * @typedef {{isLost: boolean, sinceMs: number, tries: number}} Connection
 */
const connectionSource = observable(/** @type {Connection} */ ({ isLost: false, sinceMs: 0, tries: 0 }));
export const connection = {
  ...connectionSource,
  lost() {
    const last = connectionSource.get();
    connectionSource.set({ isLost: true, sinceMs: last.isLost ? last.sinceMs : Date.now(), tries: last.tries + 1 });
  },
  heard() {
    if (connectionSource.get().isLost) connectionSource.set({ isLost: false, sinceMs: 0, tries: 0 });
  },
};
