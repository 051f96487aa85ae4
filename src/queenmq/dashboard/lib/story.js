/**
 * The way of messages through queues, put together from traces, deliveries and the messages themselves.
 */
import { get, path } from "./api.js";
import { findDeliveries, keepNote, stepsOfDelivery } from "./deliveries.js";
import { ApiError } from "./errors.js";
import { groupLabel } from "./groups.js";

/**
 * @typedef {import("./types.js").NamedTrace} NamedTrace
 * @typedef {import("./types.js").NamedTraceList} NamedTraceList
 * @typedef {import("./types.js").Trace} Trace
 * @typedef {import("./types.js").TraceList} TraceList
 * @typedef {import("./types.js").MessageDetail} MessageDetail
 * @typedef {import("./types.js").MessageDeliveries} MessageDeliveries
 * @typedef {"push" | "deliver" | "ack" | "note" | "fault"} Kind
 * @typedef {{at: number, kind: Kind, label: string, detail: unknown}} Step `at` in milliseconds.
 * @typedef {{queue: string, partition: string, partitionId: string, transactionId: string, state: string, payload: unknown, steps: Step[],
 *   unknown: string | null}} Lane `unknown`: what is not known of its deliveries.
 * @typedef {{lanes: Lane[], names: string[], isCut: boolean}} Story
 */

/** Messages of a story that are looked at one by one. */
const MESSAGES_MAX = 24;
const TRACES_MAX = 500;
/** Names of a message's traces that are followed to other messages. */
const NAMES_MAX = 3;
const FAULTS = /error|fail|fault|dead|reject/i;

/** @param {Trace} trace @returns {Step} */
function stepOf(trace) {
  return {
    at: Date.parse(trace.created_at),
    kind: FAULTS.test(trace.event_type) ? "fault" : "note",
    label: `${trace.event_type} by ${groupLabel(trace.consumer_group)}`,
    detail: trace.data,
  };
}

/**
 * Everything that was recorded under a name.
 * @param {string} name
 * @param {AbortSignal} [signal]
 * @returns {Promise<Story>}
 */
export async function storyOfName(name, signal) {
  const found = /** @type {NamedTraceList} */ (await get(path`/api/v1/traces/by-name/${name}`, { limit: TRACES_MAX }, { signal }));
  return await storyOf(found.traces, [name], found.total > found.traces.length, signal);
}

/**
 * A message, and the messages that share a name of its traces.
 * @param {string} partitionId
 * @param {string} transactionId
 * @param {AbortSignal} [signal]
 * @returns {Promise<Story>}
 */
export async function storyOfMessage(partitionId, transactionId, signal) {
  const own = /** @type {TraceList} */ (await get(path`/api/v1/traces/${partitionId}/${transactionId}`, {}, { signal })).traces;
  const names = [...new Set(own.flatMap((one) => one.trace_names))];
  const near = await Promise.all(names.slice(0, NAMES_MAX).map(async (name) =>
    /** @type {NamedTraceList} */ (await get(path`/api/v1/traces/by-name/${name}`, { limit: TRACES_MAX }, { signal })).traces));
  // Notes of the message itself have no name of its queue; the message tells that.
  const mine = own.map((one) => ({
    ...one, partition_id: partitionId, transaction_id: transactionId, queue_name: "", partition_name: "", message_payload: null,
  }));
  return await storyOf([...mine, ...near.flat()], names, names.length > NAMES_MAX, signal, { partitionId, transactionId });
}

/**
 * @param {NamedTrace[]} traces
 * @param {string[]} names
 * @param {boolean} isCut
 * @param {AbortSignal} [signal]
 * @param {{partitionId: string, transactionId: string}} [first] A message that is shown also without traces.
 * @returns {Promise<Story>}
 */
async function storyOf(traces, names, isCut, signal, first) {
  /** @type {Map<string, {partitionId: string, transactionId: string, traces: Map<string, NamedTrace>}>} */
  const messages = new Map();
  const add = (/** @type {string} */ partitionId, /** @type {string} */ transactionId) => {
    const key = `${partitionId}/${transactionId}`;
    const found = messages.get(key) ?? { partitionId, transactionId, traces: new Map() };
    messages.set(key, found);
    return found;
  };
  if (first) add(first.partitionId, first.transactionId);
  for (const trace of traces) add(trace.partition_id, trace.transaction_id).traces.set(trace.id, trace);
  const shown = [...messages.values()].slice(0, MESSAGES_MAX);
  const lanes = await Promise.all(shown.map(async ({ partitionId, transactionId, traces: own }) => {
    const [message, deliveries] = await Promise.all([
      findMessage(partitionId, transactionId, signal), findDeliveries(partitionId, transactionId, signal),
    ]);
    return laneOf(message, partitionId, transactionId, [...own.values()], deliveries);
  }));
  lanes.sort((one, other) => (one.steps[0]?.at ?? 0) - (other.steps[0]?.at ?? 0));
  return { lanes, names, isCut: isCut || messages.size > MESSAGES_MAX };
}

/** A message that retention has removed is null. @param {string} partitionId @param {string} transactionId @param {AbortSignal} [signal] */
async function findMessage(partitionId, transactionId, signal) {
  try {
    return /** @type {MessageDetail} */ (await get(path`/api/v1/messages/${partitionId}/${transactionId}`, {}, { signal }));
  } catch (error) {
    if (error instanceof ApiError && error.kind === "missing") return null;
    throw error;
  }
}

/**
 * @param {MessageDetail | null} message
 * @param {string} partitionId
 * @param {string} transactionId
 * @param {NamedTrace[]} traces
 * @param {MessageDeliveries | null} deliveries
 * @returns {Lane}
 */
export function laneOf(message, partitionId, transactionId, traces, deliveries) {
  const steps = [...traces.map(stepOf), ...(deliveries?.deliveries ?? []).flatMap(stepsOfDelivery)];
  if (message) {
    const by = message.producerSub ? ` by ${message.producerSub}` : "";
    steps.push({ at: Date.parse(message.createdAt), kind: "push", label: `pushed${by}`, detail: null });
  }
  const named = traces.find((one) => one.queue_name);
  const queue = message?.queue ?? named?.queue_name ?? "–";
  return {
    queue, unknown: keepNote(deliveries, queue), partition: message?.partition ?? named?.partition_name ?? "–",
    partitionId, transactionId, state: stateOf(message), payload: message?.payload ?? null,
    steps: steps.sort((one, other) => one.at - other.at || RANKS[one.kind] - RANKS[other.kind]),
  };
}

/** What comes first of what happened in the same millisecond. @type {Record<Kind, number>} */
const RANKS = { push: 0, deliver: 1, note: 2, fault: 3, ack: 4 };

/** Where the message is now, over all groups. @param {MessageDetail | null} message */
function stateOf(message) {
  if (!message) return "removed";
  if (message.status === "dead_letter") return "dead letter";
  const done = message.consumerGroups.filter((one) => one.consumed).length;
  const all = message.consumerGroups.length;
  if (all === 0) return "no group yet";
  if (message.consumerGroups.some((one) => !one.consumed && one.leaseExpiresAt)) return "under lease";
  return done === all ? (all === 1 ? "acked" : `acked by all ${all} groups`) : `acked by ${done} of ${all} groups`;
}
