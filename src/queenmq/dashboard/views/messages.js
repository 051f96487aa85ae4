/**
 * Messages: found by queue, partition, status, time, transaction id and text.
 */
import { Badge, Time } from "../components/basics.js";
import { Card, PageHeader } from "../components/page.js";
import { PushButton } from "../components/push.js";
import { DataTable } from "../components/table.js";
import { get } from "../lib/api.js";
import { count, visible } from "../lib/format.js";
import { useResource } from "../lib/poll.js";
import { link, setQuery } from "../lib/router.js";
import { html } from "../lib/ui.js";
import { FilterForm, askedOf } from "./messages/filters.js";
import { statusTone, statusWord } from "./messages/status.js";

/**
 * @typedef {import("../lib/types.js").MessageList} MessageList
 * @typedef {import("../lib/types.js").MessageSummary} MessageSummary
 */

const PAGE = 50;

export const view = {
  path: "/messages",
  title: "Messages",
  nav: { label: "Messages", icon: "messages", key: "m", group: "Watch" },
  component: Messages,
};

/** @type {import("../components/table.js").Column<MessageSummary>[]} */
const COLUMNS = [
  {
    id: "id", title: "Transaction id",
    cell: (row) => html`<a class="mono name" href=${link("messages", row.partitionId, row.transactionId)}>${visible(row.transactionId)}</a>`,
  },
  {
    id: "place", title: "Queue and partition", isWide: true,
    cell: (row) => html`<a class="name" href=${link("queues", row.queue)}>${visible(row.queue)}</a><span class="muted"> / </span><a class="name" href=${link("queues", row.queue, "partitions", row.partition, { at: row.seq })}>${visible(row.partition)}</a>`,
  },
  { id: "seq", title: "Number", align: "end", isWide: true, cell: (row) => count(row.seq) },
  {
    id: "status", title: "Status",
    cell: (row) => html`<${Badge} tone=${statusTone(row.status)}>${statusWord(row.status)}</${Badge}>`,
  },
  {
    id: "groups", title: "Groups that passed it", align: "end", isWide: true,
    cell: (row) => (row.busStatus.totalGroups ? `${count(row.busStatus.consumedBy)} of ${count(row.busStatus.totalGroups)}` : "–"),
  },
  { id: "created", title: "Pushed", align: "end", cell: (row) => html`<${Time} at=${row.createdAt} relative />` },
];

/** @param {import("./registry.js").ViewProps} props */
function Messages({ query }) {
  const offset = Number(query.offset ?? 0) || 0;
  /** @type {(signal: AbortSignal) => Promise<MessageList>} */
  const load = (signal) => get("/api/v1/messages", { ...askedOf(query, Date.now()), limit: PAGE, offset }, { signal });
  // A later page would shift under the reader.
  const found = useResource(load, { everyMs: offset ? 0 : 5_000, inputs: [JSON.stringify(query)], keep: true });
  const rows = found.data?.messages ?? null;
  return html`
    <${PageHeader} title="Messages" note="Newest first.">
      <${PushButton} queue=${query.queue} partition=${query.partition} onPushed=${found.reload} />
    </${PageHeader}>
    <div class="stack">
      <${FilterForm} filters=${query} />
      <${Card} flush>
        <${DataTable} label="Messages" columns=${COLUMNS} of=${{ ...found, data: rows }} rowKey=${(/** @type {MessageSummary} */ row) => row.id}
          empty=${{ title: "No message matches", text: query.within === "all" ? "Messages that were moved to the dead letters are listed there." : "Look further back with Pushed: any time." }}
          page=${{ offset, limit: PAGE, shown: rows?.length ?? 0, total: null, hasMore: rows?.length === PAGE, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }) }} />
        ${found.data?.isCut && html`<p class="card-foot muted">The list ends here: only the newest messages were looked at. Name a queue and a partition to look further back.</p>`}
      </${Card}>
    </div>`;
}
