/**
 * Reads the text of /metrics/prometheus: samples by name, and what views make of them.
 */

/** @typedef {{labels: Record<string, string>, value: number}} Sample */
/** @typedef {Map<string, Sample[]>} Samples */

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

/** @param {string} text @returns {Samples} */
export function parseMetrics(text) {
  /** @type {Samples} */
  const found = new Map();
  for (const line of text.split("\n")) {
    const [, name, labels = "", value = ""] = LINE.exec(line) ?? [];
    if (!name) continue;
    const given = Object.fromEntries([...labels.matchAll(LABEL)].map(([, key, text]) => [key, unescape(text ?? "")]));
    const list = found.get(name) ?? [];
    list.push({ labels: given, value: Number(value.replace("Inf", "Infinity")) });
    found.set(name, list);
  }
  return found;
}

/** @param {string} text */
const unescape = (text) => text.replace(/\\(.)/g, (_, letter) => (letter === "n" ? "\n" : letter));

/** One number: that of a series without labels, or the sum of them all; null if there is none. @param {Samples} samples @param {string} name */
export function total(samples, name) {
  const list = samples.get(name);
  return list ? list.reduce((sum, one) => sum + one.value, 0) : null;
}

/** The mean of a histogram; null before its first value. @param {Samples} samples @param {string} name */
export function mean(samples, name) {
  const [sum, count] = [total(samples, `${name}_sum`), total(samples, `${name}_count`)];
  return sum === null || !count ? null : sum / count;
}

/**
 * Values by one label.
 * @param {Samples} samples
 * @param {string} name
 * @param {string} label
 * @returns {Map<string, number>}
 */
export function byLabel(samples, name, label) {
  const found = new Map();
  for (const one of samples.get(name) ?? []) {
    const key = one.labels[label] ?? "";
    found.set(key, (found.get(key) ?? 0) + one.value);
  }
  return found;
}

/**
 * The buckets of a histogram, each by itself, with how many fell into it.
 * @param {Samples} samples
 * @param {string} name
 * @returns {{upTo: number, count: number}[]}
 */
export function buckets(samples, name) {
  /** @type {Map<number, number>} */
  const below = new Map();
  for (const one of samples.get(`${name}_bucket`) ?? []) {
    const upTo = Number((one.labels.le ?? "").replace("+Inf", "Infinity"));
    below.set(upTo, (below.get(upTo) ?? 0) + one.value);
  }
  let before = 0;
  return [...below].sort(([one], [other]) => one - other).map(([upTo, count]) => {
    const own = count - before;
    before = count;
    return { upTo, count: own };
  });
}
