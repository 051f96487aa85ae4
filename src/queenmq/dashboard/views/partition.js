/**
 * One partition: its messages and the groups that go through them, as a picture and as a table.
 */
import { Badge, Button, CopyButton, Time } from "../components/basics.js";
import { Countdown } from "../components/countdown.js";
import { Card, Empty, PageHeader, Show } from "../components/page.js";
import { PushButton } from "../components/push.js";
import { DataTable } from "../components/table.js";
import { get, path } from "../lib/api.js";
import { groupLabel } from "../lib/groups.js";
import { count, plural } from "../lib/format.js";
import { useResource } from "../lib/poll.js";
import { link, setQuery } from "../lib/router.js";
import { html } from "../lib/ui.js";
import { Lane, LaneLegend } from "./partition/lane.js";
import { GroupActions } from "./partition/steer.js";
import { WINDOW, focusOf, windowOf } from "./partition/window.js";
import { Findings, GROUPS_MAX, useDiagnoses } from "./queue/findings.js";

/**
 * @typedef {import("../lib/types.js").PartitionDetail} PartitionDetail
 * @typedef {import("../lib/types.js").PartitionCursor} PartitionCursor
 * @typedef {import("../lib/types.js").MessageList} MessageList
 * @typedef {import("../lib/types.js").MessageSummary} MessageSummary
 * @typedef {import("./partition/window.js").Range} Range
 */

/** Messages that are asked for at once: the drawn ones and some around them. */
const PAGE = 4 * WINDOW;
/** Before any message. */
const EVER = "1970-01-01T00:00:00Z";

export const view = {
  path: "/queues/:queue/partitions/:partition",
  title: "Partition",
  under: "/queues",
  component: Partition,
};

/** @param {import("./registry.js").ViewProps} props */
function Partition({ params, query }) {
  const queue = params.queue ?? "";
  const name = params.partition ?? "";
  /** @type {(signal: AbortSignal) => Promise<PartitionDetail>} */
  const load = (signal) => get(path`/api/v1/resources/queues/${queue}/partitions/${name}`, {}, { signal });
  const place = useResource(load, { everyMs: 2_000, inputs: [queue, name] });
  const about = place.data && html`${plural(Math.max(0, place.data.lastSeq - place.data.firstSeq + 1), "message")} kept,
    the newest <${Time} at=${place.data.newestMessage} relative />`;
  return html`
    <${PageHeader} title=${name} note=${about}
      crumbs=${[{ label: "Queues", href: link("queues") }, { label: queue, href: link("queues", queue) }, { label: "Partitions", href: link("queues", queue, { tab: "partitions" }) }]}>
      <a class="button button-plain" href=${link("messages", { queue, partition: name, within: "all" })}>Messages</a>
      <${PushButton} queue=${queue} partition=${name} onPushed=${place.reload} />
    </${PageHeader}>
    <${Show} of=${place} what="the partition">${(/** @type {PartitionDetail} */ data) => html`<${Body} place=${data} query=${query} onDone=${place.reload} />`}</${Show}>`;
}

/** @param {PartitionDetail} place @param {Range | null} range */
function useMessages(place, range) {
  /** @type {(signal: AbortSignal) => Promise<MessageSummary[]>} */
  const load = async (signal) => {
    if (!range) return [];
    // The list begins with the newest and does not count places whose message is gone. So the page that holds the range
    // may lie nearer to the newest than the numbers say.
    for (let offset = Math.max(0, place.lastSeq - range.high); ; offset = Math.max(0, offset - PAGE + WINDOW)) {
      const { messages } = /** @type {MessageList} */ (await get("/api/v1/messages", {
        queue: place.queue, partition: place.name, from: EVER, limit: PAGE, offset: Math.max(0, offset - WINDOW),
      }, { signal }));
      if (offset === 0 || Number(messages[0]?.seq ?? 0) >= range.high) {
        return messages.filter((one) => one.seq !== null && one.seq >= range.low && one.seq <= range.high);
      }
    }
  };
  const moved = place.groups.map((one) => `${one.cursorSeq} ${one.leasedUntil ?? ""}`).join();
  return useResource(load, { everyMs: 10_000, inputs: [place.id, range?.low, range?.high, place.lastSeq, moved], keep: true });
}

/** @param {{place: PartitionDetail, query: Record<string, string>, onDone: () => void}} props */
function Body({ place, query, onDone }) {
  const focus = focusOf(place.groups, query.group);
  const range = windowOf(place, focus, /^\d+$/.test(query.at ?? "") ? Number(query.at) : null);
  const messages = useMessages(place, range);
  const diagnoses = useDiagnoses(place.queue, place.groups.map((one) => one.consumerGroup), place.name);
  const shown = (messages.data ?? []).filter((one) => range && Number(one.seq) >= range.low && Number(one.seq) <= range.high);
  const leases = new Map((diagnoses.data ?? []).map((one) => [one.consumerGroup, one.partitions[0]?.leaseId ?? null]));
  const move = (/** @type {number} */ seq) => setQuery({ at: Math.max(place.firstSeq, Math.min(place.lastSeq, seq)) });
  return html`<div class="stack">
    <${Card} title="Lane" note=${range ? `messages ${count(range.low)} to ${count(range.high)} of ${count(place.firstSeq)} to ${count(place.lastSeq)}` : undefined}
      actions=${range && html`<${Button} kind="quiet" icon="left" label="Older messages" disabled=${range.low <= place.firstSeq} onClick=${() => move(range.low - WINDOW / 2)} />
        ${query.at && html`<${Button} kind="quiet" onClick=${() => setQuery({ at: null })}>Back to the cursor</${Button}>`}
        <${Button} kind="quiet" icon="right" label="Newer messages" disabled=${range.high >= place.lastSeq} onClick=${() => move(range.high + WINDOW / 2)} />`}>
      ${range
        ? html`<${Lane} place=${place} range=${range} messages=${messages.data && shown} focus=${focus?.consumerGroup ?? null} />
          <${LaneLegend} />`
        : html`<${Empty} title="No messages are kept here">The next push gets number ${count(place.lastSeq + 1)}.</${Empty}>`}
    </${Card}>
    <${Card} title="Groups" flush>
      <${DataTable} label="Groups in this partition" of=${{ data: place.groups, error: null, isLoading: false, at: 0, reload: onDone }}
        columns=${columnsOf(place, leases, shown, onDone)} rowKey=${(/** @type {PartitionCursor} */ row) => row.consumerGroup}
        empty=${{ title: "No group has been here", text: "Messages wait until a consumer asks for them." }} />
    </${Card}>
    ${place.groups.length > 0 && html`<${Card} title="Why" note="what each group does right now, and what to do" flush>
      <${Findings} of=${diagnoses} left=${place.groups.length - GROUPS_MAX} focus=${focus?.consumerGroup} /></${Card}>`}
  </div>`;
}

/**
 * @param {PartitionDetail} place
 * @param {Map<string, string | null>} leases
 * @param {MessageSummary[]} messages
 * @param {() => void} onDone
 * @returns {import("../components/table.js").Column<PartitionCursor>[]}
 */
const columnsOf = (place, leases, messages, onDone) => [
  {
    id: "group", title: "Group",
    cell: (row) => html`<a class="strong name" href=${link("queues", place.queue, "partitions", place.name, { group: row.consumerGroup })}
      title="Show this group in the picture">${groupLabel(row.consumerGroup)}</a>`,
  },
  { id: "cursor", title: "Passed", align: "end", cell: (row) => count(row.cursorSeq) },
  { id: "lag", title: "Behind", align: "end", cell: (row) => count(row.lag) },
  { id: "lease", title: "Lease", cell: (row) => html`<${Lease} row=${row} leaseId=${leases.get(row.consumerGroup) ?? null} />` },
  { id: "attempts", title: "Trouble", cell: (row) => html`<${Trouble} row=${row} />` },
  { id: "last", title: "Last ack", align: "end", isWide: true, cell: (row) => html`<${Time} at=${row.lastConsumedAt} relative />` },
  {
    id: "actions", title: "Actions",
    cell: (row) => html`<${GroupActions} place=${place} cursor=${row} messages=${messages} onDone=${onDone} />`,
  },
];

/** @param {{row: PartitionCursor, leaseId: string | null}} props */
function Lease({ row, leaseId }) {
  if (!row.leasedUntil) return html`<span class="muted">free</span>`;
  return html`<div class="lease"><${Countdown} from=${row.leasedAt} until=${row.leasedUntil} />
    <span class="muted sub">up to ${count(row.leaseEndSeq)}, taken <${Time} at=${row.leasedAt} relative /></span>
    ${leaseId && html`<span class="muted sub lease-id"><span class="clip mono" title=${leaseId}>${leaseId}</span><${CopyButton} text=${leaseId} what="lease id" /></span>`}</div>`;
}

/** @param {{row: PartitionCursor}} props */
function Trouble({ row }) {
  const { blockedSeq, retryCount, retrySeq, retryAt, retryError, expiredLeases } = row;
  if (blockedSeq === null && retryCount === 0 && expiredLeases === 0) return html`<span class="muted">–</span>`;
  return html`<div>
    ${blockedSeq !== null && html`<${Badge} tone="danger">blocked at ${count(blockedSeq)}</${Badge}>`}
    ${retryCount > 0 && html`<${Badge} tone="warning">${plural(retryCount, "failed attempt")} of ${count(retrySeq)}</${Badge}>`}
    ${expiredLeases > 0 && html`<${Badge} tone="warning">${plural(expiredLeases, "expired lease")}</${Badge}>`}
    ${retryAt && html`<span class="muted sub">${Date.parse(retryAt) > Date.now() ? html`again <${Time} at=${retryAt} relative />` : "its delay is over"}</span>`}
    ${retryError && html`<span class="muted sub clip" title=${retryError}>${retryError}</span>`}
  </div>`;
}
