/**
 * Numbers, sizes, durations and times as people read them. What is not known is a dash, never a zero.
 */

const NONE = "–";
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** @typedef {number | null | undefined} Known */

/** @param {Known} value @returns {value is number} */
const isKnown = (value) => typeof value === "number" && Number.isFinite(value);

/** A count in full: 12,345. @param {Known} value */
export const count = (value) => (isKnown(value) ? whole.format(value) : NONE);

/** A count that has to fit: 12.3K. @param {Known} value */
export const short = (value) => (isKnown(value) ? (Math.abs(value) < 10_000 ? whole : compact).format(value) : NONE);

/** A rate: 0.4, 12, 1.2K. @param {Known} value */
export function rate(value) {
  if (!isKnown(value)) return NONE;
  if (value !== 0 && Math.abs(value) < 10) return value.toFixed(value < 0.1 ? 2 : 1);
  return short(value);
}

/** @param {Known} value */
export function bytes(value) {
  if (!isKnown(value)) return NONE;
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1000 && unit < units.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

/** A length of time: 340 ms, 4.2 s, 12 min, 3 h, 2 d. @param {Known} seconds */
export function duration(seconds) {
  if (!isKnown(seconds)) return NONE;
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (size < 10) return `${seconds.toFixed(1)} s`;
  if (size < 120) return `${Math.round(seconds)} s`;
  if (size < 7_200) return `${Math.round(seconds / 60)} min`;
  if (size < 172_800) return `${Math.round(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** @param {Known} ms */
export const milliseconds = (ms) => (isKnown(ms) ? duration(ms / 1000) : NONE);

/** @param {Known} ratio 0 to 1 */
export const percent = (ratio) => (isKnown(ratio) ? `${(100 * ratio).toFixed(ratio < 0.1 ? 1 : 0)} %` : NONE);

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, {
  day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});

/** A time in the reader's zone, without the date if it is today. @param {string | number | Date} time */
export function localTime(time) {
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return NONE;
  return (date.toDateString() === new Date().toDateString() ? clock : day).format(date);
}

/** How long ago: "just now", "4 min ago", "in 12 s". @param {string | number | Date} time @param {number} [nowMs] */
export function ago(time, nowMs = Date.now()) {
  const seconds = (nowMs - new Date(time).getTime()) / 1000;
  if (!Number.isFinite(seconds)) return NONE;
  if (Math.abs(seconds) < 2) return "just now";
  return seconds > 0 ? `${duration(seconds)} ago` : `in ${duration(-seconds)}`;
}

/** How much later than another time: "+412 ms". @param {number} atMs @param {number} fromMs */
export const later = (atMs, fromMs) => `+${duration(Math.max(0, atMs - fromMs) / 1000)}`;

/** Singular or plural with its count: plural(1, "message") is "1 message". @param {number} number @param {string} noun */
export const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/**
 * A name as it can be seen and read aloud. Names may consist of spaces or of characters without a shape. No name stays empty.
 * @param {string | null | undefined} name
 */
export function visible(name) {
  if (!name) return "";
  if (/[\p{L}\p{N}\p{P}\p{S}]/u.test(name)) return name;
  const codes = Array.from(name, (one) => `U+${(one.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`);
  return `"${name}" (${codes.slice(0, 8).join(" ")})`;
}
