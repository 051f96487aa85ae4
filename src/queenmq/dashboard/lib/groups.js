/**
 * Consumer groups: their names for people, and their lag over time as brokers wrote it down.
 */
import { get } from "./api.js";
import { visible } from "./format.js";
import { useResource } from "./poll.js";
import { range, rangeQuery, useValue } from "./store.js";

/**
 * @typedef {import("./types.js").GroupLag} GroupLag
 * @typedef {import("./types.js").GroupLagPoint} Point
 * @typedef {import("./poll.js").Resource<GroupLag>} LagResource
 */

/** How the API calls the group of pops that name none. */
export const DEFAULT_GROUP = "__QUEUE_MODE__";

/** @param {string | null | undefined} name */
export const groupLabel = (name) => (!name || name === DEFAULT_GROUP ? "default group" : visible(name));

/** @param {string} name @param {string} queue @param {string} kind */
export const lagKey = (name, queue, kind) => JSON.stringify([name, queue, kind]);

/** Steps that may be missing in a line: a broker looks less often at a large database. */
const GAP_STEPS = 5;

/**
 * The lag of groups over the chosen range.
 * @param {{queue?: string, consumerGroup?: string, limit?: number}} which
 * @returns {LagResource}
 */
export function useGroupLag({ queue, consumerGroup, limit }) {
  const chosen = useValue(range);
  /** @type {(signal: AbortSignal) => Promise<GroupLag>} */
  const load = (signal) => get("/api/v1/analytics/group-lag", { ...rangeQuery(), queue, consumerGroup, limit }, { signal });
  return useResource(load, { everyMs: 30_000, inputs: [queue, consumerGroup, limit, chosen], keep: true });
}

/**
 * The times of all points, and the points of each group at these times. A null breaks a line, undefined does not.
 * @param {GroupLag} data
 */
export function lagSteps({ series, bucketMinutes }) {
  const seen = [...new Set(series.map((point) => Date.parse(point.bucket) / 1000))].sort((one, other) => one - other);
  const step = bucketMinutes * 60;
  const breaks = new Set(seen.filter((time, index) => time - (seen[index - 1] ?? time) > GAP_STEPS * step).map((time) => time - step));
  const times = [...seen, ...breaks].sort((one, other) => one - other);
  /** @type {Map<string, Map<number, Point>>} */
  const found = new Map();
  for (const point of series) {
    const key = lagKey(point.consumerGroup, point.queueName, point.kind);
    found.set(key, (found.get(key) ?? new Map()).set(Date.parse(point.bucket) / 1000, point));
  }
  /** @param {Map<number, Point>} points */
  const line = (points) => times.map((time) => points.get(time) ?? (breaks.has(time) ? null : undefined));
  return { times, groups: new Map([...found].map(([key, points]) => [key, line(points)])) };
}
