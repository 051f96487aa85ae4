/**
 * Why a group does or does not move, in the words of `GET /api/v1/why/{queue}`, and the partitions to look at.
 */
import { Badge, Time } from "../../components/basics.js";
import { Empty, Show } from "../../components/page.js";
import { DataTable } from "../../components/table.js";
import { get, path } from "../../lib/api.js";
import { groupLabel } from "../../lib/groups.js";
import { count, short, visible } from "../../lib/format.js";
import { useResource } from "../../lib/poll.js";
import { link } from "../../lib/router.js";
import { html } from "../../lib/ui.js";

/**
 * @typedef {import("../../lib/types.js").Diagnosis} Diagnosis
 * @typedef {import("../../lib/types.js").Finding} Finding
 * @typedef {import("../../lib/types.js").StuckPartition} StuckPartition
 * @typedef {StuckPartition & {group: string, queue: string}} Stuck
 */

/** Groups that are asked about at once. Each costs the broker a look at the queue. */
export const GROUPS_MAX = 8;

const FINE = ["no_backlog", "consumers_waiting"];
/** Neither good nor bad: what follows says whether anything takes the messages. */
const PLAIN = ["ready", "last_dead_letter"];
const BROKEN = ["blocked_by_poison", "lease_keeps_expiring", "operation_failed", "queue_full", "spool_aside", "broker_overloaded"];

/** @param {string} code @returns {import("../../components/basics.js").Tone} */
export const toneOf = (code) => (FINE.includes(code) ? "good" : PLAIN.includes(code) ? "neutral" : BROKEN.includes(code) ? "danger" : "warning");

/** The finding that stands for a group: the worst, the first of several. @param {Finding[]} findings */
export function worstOf(findings) {
  const order = ["danger", "warning", "good", "neutral"];
  const rank = (/** @type {Finding} */ one) => order.indexOf(toneOf(one.code));
  return [...findings].sort((one, other) => rank(one) - rank(other))[0];
}

/**
 * Ask about each of these groups.
 * @param {string} queue
 * @param {string[] | null} groups null: not known yet.
 * @param {string} [partition]
 */
export function useDiagnoses(queue, groups, partition) {
  const asked = (groups ?? []).slice(0, GROUPS_MAX);
  /** @type {(signal: AbortSignal) => Promise<Diagnosis[]>} */
  const load = (signal) => Promise.all(asked.map((consumerGroup) =>
    get(path`/api/v1/why/${queue}`, { consumerGroup, partition }, { signal })));
  const found = useResource(load, { everyMs: 10_000, inputs: [queue, partition, groups && asked.join("\n")], keep: true });
  return groups === null ? { ...found, data: null } : found;
}

/**
 * @param {{of: import("../../lib/poll.js").Resource<Diagnosis[]>, left?: number, focus?: string}} props
 * `left`: groups that were not asked about. `focus`: the group whose findings are open.
 */
export function Findings({ of, left = 0, focus }) {
  return html`<${Show} of=${of} what="what the groups do">${(/** @type {Diagnosis[]} */ list) => list.length === 0
    ? html`<${Empty} title="No group has popped here" icon="groups">Messages wait until a consumer asks for them.</${Empty}>`
    : html`<ul class="findings">${list.map((one) => html`<${Group} key=${one.consumerGroup} diagnosis=${one} isOpen=${one.consumerGroup === focus || list.length === 1} />`)}</ul>
        ${left > 0 && html`<p class="muted findings-left">${count(left)} more groups are not shown here.</p>`}`}</${Show}>`;
}

/** One line of a group, which opens into all its findings. @param {{diagnosis: Diagnosis, isOpen: boolean}} props */
function Group({ diagnosis, isOpen }) {
  const { consumerGroup, findings, queue, partition } = diagnosis;
  const first = worstOf(findings);
  return html`<li><details class="finding-group" open=${isOpen}>
    <summary>
      <span class="strong finding-name">${groupLabel(consumerGroup)}</span>
      ${first && html`<${Badge} tone=${toneOf(first.code)}>${first.code.replaceAll("_", " ")}</${Badge}>`}
      <span class="finding-summary">${first?.message}</span>
    </summary>
    <ul>${findings.map((one, index) => html`<li key=${index} class="finding">
      <${Badge} tone=${toneOf(one.code)}>${one.code.replaceAll("_", " ")}</${Badge}>
      <div><p class="trouble-message">${one.message}</p>
        ${one.action && html`<p class="muted">${one.action}</p>`}
        ${!partition && one.partitions.length > 0 && html`<p class="finding-places">${one.partitions.map((name) => html`<a key=${name}
          href=${link("queues", queue, "partitions", name, { group: consumerGroup })}>${visible(name)}</a>`)}</p>`}</div>
    </li>`)}</ul>
  </details></li>`;
}

const STATE_TONES = { blocked: "danger", waiting: "warning", leased: "accent", ready: "neutral" };

/** @type {import("../../components/table.js").Column<Stuck>[]} */
const STUCK_COLUMNS = [
  {
    id: "partition", title: "Partition",
    cell: (row) => html`<a class="name strong" href=${link("queues", row.queue, "partitions", row.partition, { group: row.group })}>${visible(row.partition)}</a>
      <span class="muted sub">${groupLabel(row.group)}</span>`,
  },
  {
    id: "state", title: "State",
    cell: (row) => html`<${Badge} tone=${STATE_TONES[/** @type {keyof typeof STATE_TONES} */ (row.state)] ?? "neutral"}>${row.state}</${Badge}>`,
  },
  { id: "backlog", title: "Behind", align: "end", cell: (row) => short(row.backlog) },
  { id: "oldest", title: "Oldest", align: "end", cell: (row) => html`<${Time} at=${row.oldestMessage} relative />` },
  { id: "retries", title: "Attempts failed", align: "end", isWide: true, cell: (row) => count(row.retryCount) },
  { id: "error", title: "Last error", isWide: true, cell: (row) => html`<span class="clip muted" title=${row.lastError}>${row.lastError ?? "–"}</span>` },
];

/** Partitions in which a group is behind: blocked ones first, then those that wait longest. @param {Diagnosis[]} list @returns {Stuck[]} */
export function stuckOf(list) {
  const order = ["blocked", "waiting", "leased", "ready"];
  return list
    .flatMap((one) => one.partitions.map((row) => ({ ...row, group: one.consumerGroup, queue: one.queue })))
    .sort((one, other) => order.indexOf(one.state) - order.indexOf(other.state)
      || (one.oldestMessage ?? "").localeCompare(other.oldestMessage ?? ""))
    .slice(0, 10);
}

/** @param {{of: import("../../lib/poll.js").Resource<Diagnosis[]>}} props */
export function StuckPartitions({ of }) {
  const rows = { ...of, data: of.data && stuckOf(of.data) };
  return html`<${DataTable} label="Partitions to look at" columns=${STUCK_COLUMNS} of=${rows}
    rowKey=${(/** @type {Stuck} */ row) => `${row.group} ${row.partitionId}`}
    empty=${{ title: "No group is behind", text: "Partitions stand here when a group has not passed all their messages." }} />`;
}
