/**
 * When groups got and passed a message, as far as its queue writes that down.
 */
import { get, path } from "./api.js";
import { ApiError } from "./errors.js";
import { groupLabel } from "./groups.js";

/**
 * @typedef {import("./types.js").MessageDelivery} MessageDelivery
 * @typedef {import("./types.js").MessageDeliveries} MessageDeliveries
 * @typedef {{at: number, kind: "deliver" | "ack" | "fault", label: string, detail: unknown}} DeliveryStep
 */

/** How a message left a group, by the cause in its history. @type {Record<string, string>} */
const WAYS = {
  ack: "acked by", autoAck: "acked on delivery by", poison: "given up by", removed: "removed before it reached", seek: "passed over by a seek of",
};

/** @param {string} partitionId @param {string} transactionId @param {AbortSignal} [signal] @returns {Promise<MessageDeliveries | null>} */
export async function findDeliveries(partitionId, transactionId, signal) {
  try {
    return await get(path`/api/v1/deliveries/${partitionId}/${transactionId}`, {}, { signal });
  } catch (error) {
    if (error instanceof ApiError && error.kind === "missing") return null;
    throw error;
  }
}

/** @param {MessageDelivery} delivery @returns {DeliveryStep[]} */
export function stepsOfDelivery({ consumerGroup, deliveredAt, passedAt, cause, retries }) {
  const group = groupLabel(consumerGroup);
  const detail = retries ? { retries } : null;
  /** @type {DeliveryStep[]} */
  const steps = [];
  if (deliveredAt) steps.push({ at: Date.parse(deliveredAt), kind: "deliver", label: `delivered to ${group}`, detail });
  if (passedAt) {
    steps.push({ at: Date.parse(passedAt), kind: cause === "poison" ? "fault" : "ack", label: `${WAYS[cause] ?? `passed (${cause}) by`} ${group}`, detail: null });
  }
  return steps;
}

/** Say what is not known, or null where all of it is. @param {MessageDeliveries | null} found @param {string} queue */
export function keepNote(found, queue) {
  if (found === null) return null;
  if (!found.isKept) {
    return `${queue} keeps no ackHistory: when its messages were delivered and acked is not known. Turn the option on to keep it from now on.`;
  }
  return found.isCut ? `${queue} is busy: only the first 100,000 acks after the push were searched. Later deliveries are not shown.` : null;
}
