/**
 * The options of a queue that do something: what they are called, what they allow, and what a change of one means.
 * Decisions only; the editor draws them.
 */
import { count, duration } from "../../lib/format.js";

/**
 * @typedef {import("../../lib/types.js").QueueOptions} QueueOptions
 * @typedef {keyof QueueOptions} OptionName
 * @typedef {Partial<Record<OptionName, string | boolean>>} Draft Text of fields, and switches.
 * @typedef {object} Option
 * @property {OptionName} name
 * @property {string} label
 * @property {string} hint
 * @property {"seconds" | "milliseconds" | "number" | "switch" | "choice"} kind
 * @property {string[]} [choices]
 * @property {number} [min]
 * @property {number} [max]
 */

/** What a PostgreSQL integer holds. */
const INTEGER_MAX = 2_147_483_647;

/** @type {{title: string, options: Option[]}[]} */
export const SECTIONS = [
  {
    title: "Delivery",
    options: [
      { name: "leaseTime", label: "Lease time", kind: "seconds", hint: "Until a message is handed out again. 0 means 60." },
      { name: "retryLimit", label: "Retries", kind: "number", hint: "Redeliveries before a dead letter." },
      { name: "retryDelay", label: "Retry delay", kind: "milliseconds", hint: "Between a failed ack and the redelivery." },
      { name: "delayedProcessing", label: "Delay", kind: "seconds", hint: "Before a message is delivered. 0: at once." },
      { name: "windowBuffer", label: "Window", kind: "seconds", hint: "Quiet time before a partition is delivered." },
      { name: "priority", label: "Priority", kind: "number", min: -INTEGER_MAX - 1, hint: "Among queues of a namespace, higher first." },
    ],
  },
  {
    title: "Trouble",
    options: [
      { name: "onPoison", label: "Poison messages", kind: "choice", choices: ["dlq", "skip", "block"], hint: "What to do with a message on which consumers die." },
      { name: "onFailedOperation", label: "After a failed operation", kind: "choice", choices: ["stop", "continue"], hint: "What pushes behind it do." },
      { name: "maxSize", label: "Most that may wait", kind: "number", max: Number.MAX_SAFE_INTEGER, hint: "Messages. Further pushes are refused. 0: no bound." },
      { name: "ackHistory", label: "Ack history", kind: "switch", hint: "Write down every move of a group, for analytics and audits." },
    ],
  },
  {
    title: "Retention",
    options: [
      { name: "retentionEnabled", label: "Remove old messages", kind: "switch", hint: "Whether the two ages beside it hold." },
      { name: "retentionSeconds", label: "Keep all for", kind: "seconds", hint: "Then removed, consumed or not. 0: for good." },
      { name: "completedRetentionSeconds", label: "Keep consumed ones for", kind: "seconds", hint: "Once every group has consumed them. 0: for good." },
      { name: "maxWaitTimeSeconds", label: "Longest wait", kind: "seconds", hint: "Removed if no group consumes them in time. Holds in any case. 0: never." },
      { name: "archiveBeforeDelete", label: "Archive first", kind: "switch", hint: "Remove nothing that is not in the archive and verified." },
    ],
  },
];

export const OPTIONS = SECTIONS.flatMap((section) => section.options);

/** The form's fields of these options. @param {QueueOptions} options @returns {Draft} */
export function draftOf(options) {
  return Object.fromEntries(OPTIONS.map(({ name, kind }) => [name, kind === "switch" ? options[name] : String(options[name])]));
}

/** What is wrong with a field, or null. @param {Option} option @param {string | boolean | undefined} value */
export function faultOf(option, value) {
  if (option.kind === "switch") return null;
  if (option.kind === "choice") return option.choices?.includes(String(value)) ? null : "Choose one.";
  const { min = 0, max = INTEGER_MAX } = option;
  const text = String(value ?? "").trim();
  const number = Number(text);
  if (!/^-?\d+$/.test(text)) return "A whole number, without a dot.";
  return number < min || number > max ? `From ${count(min)} to ${count(max)}.` : null;
}

/** @param {Option} option @param {string | boolean | undefined} value */
const valueOf = (option, value) => (option.kind === "switch" || option.kind === "choice" ? value : Number(value));

/**
 * What was edited, against the options that were loaded.
 * @param {QueueOptions} loaded
 * @param {Draft} draft
 * @returns {Partial<QueueOptions>}
 */
export function editsOf(loaded, draft) {
  const edits = OPTIONS.map((option) => [option.name, valueOf(option, draft[option.name])]);
  return Object.fromEntries(edits.filter(([name, value]) => value !== loaded[/** @type {OptionName} */ (name)]));
}

/** A value for people. @param {Option} option @param {unknown} value */
export function shown(option, value) {
  if (option.kind === "switch") return value ? "on" : "off";
  if (option.kind === "choice") return String(value);
  const number = Number(value);
  if (option.kind === "seconds") return number < 120 ? `${count(number)} s` : `${count(number)} s (${duration(number)})`;
  if (option.kind === "milliseconds") return `${count(number)} ms`;
  return count(number);
}

/**
 * What a change does that a person might not think of.
 * @param {QueueOptions} next
 * @param {Partial<QueueOptions>} edits
 * @param {number} waiting Messages that wait now.
 */
export function consequences(next, edits, waiting) {
  const said = [];
  const touches = (/** @type {OptionName[]} */ ...names) => names.some((name) => name in edits);
  const archived = next.archiveBeforeDelete ? " once they are archived" : "";
  if (touches("retentionEnabled", "retentionSeconds") && next.retentionEnabled && next.retentionSeconds) {
    said.push(`Messages older than ${duration(next.retentionSeconds)} are removed${archived}, consumed or not.`);
  }
  if (touches("retentionEnabled", "completedRetentionSeconds") && next.retentionEnabled && next.completedRetentionSeconds) {
    said.push(`Consumed messages older than ${duration(next.completedRetentionSeconds)} are removed${archived}.`);
  }
  if (touches("retentionSeconds", "completedRetentionSeconds") && !next.retentionEnabled) {
    said.push("Nothing is removed by age while Remove old messages is off.");
  }
  if (touches("maxWaitTimeSeconds") && next.maxWaitTimeSeconds) {
    said.push(`Messages that no group has consumed for ${duration(next.maxWaitTimeSeconds)} are removed${archived}.`);
  }
  if (touches("maxSize") && next.maxSize && waiting >= next.maxSize) {
    said.push(`${count(waiting)} messages wait now: pushes are refused until fewer than ${count(next.maxSize)} do.`);
  }
  if (touches("onPoison") && next.onPoison === "block") said.push("A poison message stops its partition until a person acts.");
  if (touches("onPoison") && next.onPoison === "skip") said.push("Poison messages are lost to the group: they become no dead letters.");
  if (touches("leaseTime")) said.push("Leases that are held now keep their time.");
  return said;
}
