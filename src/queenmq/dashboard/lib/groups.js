/**
 * Consumer groups: their names for people, and their lag over time, which the page samples while it is open.
 */
import { observable } from "./store.js";

/** How the API calls the group of pops that name none. */
export const DEFAULT_GROUP = "__QUEUE_MODE__";

/** @param {string | null | undefined} name */
export const groupLabel = (name) => (!name || name === DEFAULT_GROUP ? "default group" : name);

/** @typedef {import("./types.js").ConsumerGroup} ConsumerGroup */
/** @typedef {{times: number[], lags: Map<string, (number | null)[]>}} Samples */

/** An hour at one sample in five seconds. */
const SAMPLES_MAX = 720;

/** The API keeps no history of lag, so that a chart of it begins when the page is opened. */
export const lagSamples = observable(/** @type {Samples} */ ({ times: [], lags: new Map() }));

/** @param {string} name @param {string} queue */
export const sampleKey = (name, queue) => JSON.stringify([name, queue]);

/**
 * Add what an answer says of each group. A group that was not there has gaps.
 * @param {ConsumerGroup[]} groups
 * @param {number} [nowS]
 */
export function sampleLag(groups, nowS = Date.now() / 1000) {
  const { times, lags } = lagSamples.get();
  const last = times.at(-1);
  if (last !== undefined && nowS - last < 2) return;
  const size = Math.min(times.length + 1, SAMPLES_MAX);
  const next = new Map();
  for (const one of groups) {
    const key = sampleKey(one.name, one.queueName);
    const before = lags.get(key) ?? times.map(() => null);
    next.set(key, [...before, one.totalLag].slice(-size));
  }
  lagSamples.set({ times: [...times, nowS].slice(-size), lags: next });
}
