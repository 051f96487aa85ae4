/**
 * The partitions of a queue, a page at a time. The broker searches and sorts, so that a million of them stay quick.
 */
import { Badge, Time } from "../../components/basics.js";
import { Card } from "../../components/page.js";
import { SearchBox } from "../../components/search.js";
import { DataTable } from "../../components/table.js";
import { get, path } from "../../lib/api.js";
import { count, short, visible } from "../../lib/format.js";
import { useResource } from "../../lib/poll.js";
import { link, setQuery } from "../../lib/router.js";
import { html } from "../../lib/ui.js";

/**
 * @typedef {import("../../lib/types.js").QueuePartitions} QueuePartitions
 * @typedef {import("../../lib/types.js").PartitionRow} PartitionRow
 */

const PAGE = 50;
/** What is listed, by its name in the URL. */
const LISTS = {
  name: { label: "By name", query: { sort: "name" } },
  depth: { label: "Deepest", query: { sort: "depth" } },
  newest: { label: "Hottest", query: { sort: "newest" } },
  blocked: { label: "Blocked", query: { sort: "name", blocked: true } },
};

/** @param {string} queue @returns {import("../../components/table.js").Column<PartitionRow>[]} */
const columnsOf = (queue) => [
  {
    id: "name", title: "Partition",
    cell: (row) => html`<a class="strong name" href=${link("queues", queue, "partitions", row.name)}>${visible(row.name)}</a>`,
  },
  { id: "depth", title: "Stored", align: "end", cell: (row) => short(Math.max(0, row.lastSeq - row.firstSeq + 1)) },
  { id: "lag", title: "Behind", align: "end", cell: (row) => (row.groups ? short(row.lag) : "–") },
  { id: "groups", title: "Groups", align: "end", isWide: true, cell: (row) => count(row.groups) },
  { id: "state", title: "State", cell: (row) => html`<${State} row=${row} />` },
  { id: "newest", title: "Last push", align: "end", cell: (row) => html`<${Time} at=${row.newestMessage} relative />` },
  { id: "created", title: "Created", align: "end", isWide: true, cell: (row) => html`<${Time} at=${row.createdAt} relative />` },
];

/** @param {{row: PartitionRow}} props */
function State({ row }) {
  if (row.blocked) return html`<${Badge} tone="danger">blocked</${Badge}>`;
  if (row.leased) return html`<${Badge} tone="accent">${row.leased === 1 ? "leased" : `${row.leased} leases`}</${Badge}>`;
  return html`<span class="muted">–</span>`;
}

/** @param {{queue: string, query: Record<string, string>}} props */
export function Partitions({ queue, query }) {
  const search = query.search ?? "";
  const chosen = /** @type {keyof typeof LISTS} */ (Object.hasOwn(LISTS, query.list ?? "") ? query.list : "name");
  const offset = Number(query.offset ?? 0) || 0;
  /** @type {(signal: AbortSignal) => Promise<QueuePartitions>} */
  const load = (signal) => get(path`/api/v1/resources/queues/${queue}/partitions`,
    { ...LISTS[chosen].query, search, limit: PAGE, offset }, { signal });
  const found = useResource(load, { everyMs: 5_000, inputs: [queue, chosen, search, offset], keep: true });
  const total = found.data?.total ?? null;
  return html`<${Card} title="Partitions" flush
    note=${total === null ? undefined : `${count(total)}${found.data?.isCut ? " or more" : ""}`}
    actions=${html`<div class="segments" role="group" aria-label="Which partitions">
        ${Object.entries(LISTS).map(([name, { label }]) => html`<button key=${name} type="button" aria-pressed=${name === chosen}
          onClick=${() => setQuery({ list: name === "name" ? null : name, offset: null })}>${label}</button>`)}
      </div>
      <${SearchBox} label="Search partitions" value=${search} onSearch=${(/** @type {string} */ text) => setQuery({ search: text, offset: null })} />`}>
    <${DataTable} label="Partitions" columns=${columnsOf(queue)} of=${{ ...found, data: found.data?.partitions ?? null }}
      rowKey=${(/** @type {PartitionRow} */ row) => row.id}
      empty=${chosen === "blocked"
        ? { title: "No partition is blocked", text: "A poison message blocks its partition where onPoison is block." }
        : search ? { title: "No partition matches", text: "The search looks for a part of the name." } : { title: "No partitions yet" }}
      page=${{
        offset, limit: PAGE, shown: found.data?.partitions.length ?? 0, total: found.data?.isCut ? null : total,
        hasMore: found.data?.partitions.length === PAGE, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }),
      }} />
  </${Card}>`;
}
