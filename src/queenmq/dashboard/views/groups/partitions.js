/**
 * The partitions of a group on a queue: cursors and leases, a page at a time. The broker searches and sorts.
 */
import { ActionButton } from "../../components/action.js";
import { Badge, Time } from "../../components/basics.js";
import { Card } from "../../components/page.js";
import { SearchBox } from "../../components/search.js";
import { DataTable } from "../../components/table.js";
import { get, path, send } from "../../lib/api.js";
import { count, duration, short, visible } from "../../lib/format.js";
import { groupLabel } from "../../lib/groups.js";
import { useResource } from "../../lib/poll.js";
import { link, setQuery } from "../../lib/router.js";
import { useMemo, html } from "../../lib/ui.js";

/**
 * @typedef {import("../../lib/types.js").GroupPartition} GroupPartition
 * @typedef {import("../../lib/types.js").GroupPartitions} GroupPartitions
 */

const PAGE = 50;
/** What is listed, by its name in the URL. */
const LISTS = {
  lag: { label: "Most behind", query: { sort: "lag" } },
  name: { label: "By name", query: { sort: "name" } },
  recent: { label: "Last consumed", query: { sort: "recent" } },
  leased: { label: "Under lease", query: { sort: "name", leased: true } },
};

/** @param {{name: string, queue: string, query: Record<string, string>, onDone: () => void}} props */
export function Partitions({ name, queue, query, onDone }) {
  const search = query.search ?? "";
  const chosen = /** @type {keyof typeof LISTS} */ (Object.hasOwn(LISTS, query.list ?? "") ? query.list : "lag");
  const offset = Number(query.offset ?? 0) || 0;
  /** @type {(signal: AbortSignal) => Promise<GroupPartitions>} */
  const load = (signal) => get(path`/api/v1/consumer-groups/${name}/queues/${queue}/partitions`,
    { ...LISTS[chosen].query, search, limit: PAGE, offset }, { signal });
  const found = useResource(load, { everyMs: 5_000, inputs: [name, queue, chosen, search, offset], keep: true });
  const columns = useMemo(() => columnsOf(name, queue, () => {
    found.reload();
    onDone();
  }), [name, queue]);
  const total = found.data?.total ?? null;
  return html`<div class="below"><${Card} title="Cursors and leases" flush note=${total === null ? undefined : count(total)}
    actions=${html`<div class="segments" role="group" aria-label="Which partitions">
        ${Object.entries(LISTS).map(([list, { label }]) => html`<button key=${list} type="button" aria-pressed=${list === chosen}
          onClick=${() => setQuery({ list: list === "lag" ? null : list, offset: null })}>${label}</button>`)}
      </div>
      <${SearchBox} label="Search partitions" value=${search} onSearch=${(/** @type {string} */ text) => setQuery({ search: text, offset: null })} />`}>
    <${DataTable} label="Cursors and leases" columns=${columns} of=${{ ...found, data: found.data?.partitions ?? null }}
      rowKey=${(/** @type {GroupPartition} */ row) => row.partition} empty=${emptyOf(chosen, search)}
      page=${{ offset, limit: PAGE, shown: found.data?.partitions.length ?? 0, total: total ?? 0, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }) }} />
  </${Card}></div>`;
}

/** @param {string} list @param {string} search */
function emptyOf(list, search) {
  if (search) return { title: "No partition matches", text: "The search looks for a part of the name." };
  if (list === "leased") return { title: "No partition is under lease", text: "No consumer of the group holds messages right now." };
  return { title: "No partitions yet", text: "The group has visited none, and none has messages for it." };
}

/** @param {string} name @param {string} queue @param {() => void} onDone @returns {import("../../components/table.js").Column<GroupPartition>[]} */
const columnsOf = (name, queue, onDone) => [
  { id: "partition", title: "Partition", cell: (row) => html`<a class="strong name" href=${link("queues", queue, "partitions", row.partition)}>${visible(row.partition)}</a>` },
  { id: "lease", title: "Lease", cell: (row) => (row.leaseActive ? html`<${Badge} tone="accent">held</${Badge}>` : html`<span class="muted">free</span>`) },
  { id: "lag", title: "Lag", align: "end", cell: (row) => html`<span title=${count(row.offsetLag)}>${short(row.offsetLag)}</span>` },
  { id: "age", title: "Oldest", align: "end", cell: (row) => (row.offsetLag ? duration(row.timeLagSeconds) : "–") },
  { id: "consumed", title: "Consumed", align: "end", isWide: true, cell: (row) => short(row.totalConsumed) },
  { id: "last", title: "Last consumed", align: "end", isWide: true, cell: (row) => html`<${Time} at=${row.lastConsumedAt} relative />` },
  { id: "act", title: "Actions", align: "end", cell: (row) => html`<${Release} name=${name} queue=${queue} row=${row} onDone=${onDone} />` },
];

/** @param {{name: string, queue: string, row: GroupPartition, onDone: () => void}} props */
function Release({ name, queue, row, onDone }) {
  const run = async () => {
    const { ended } = /** @type {import("../../lib/types.js").LeaseEnded} */ (
      await send("POST", path`/api/v1/consumer-groups/${name}/queues/${queue}/partitions/${row.partition}/release`));
    onDone();
    return ended ? `Released ${row.partition}.` : `There was no lease on ${row.partition} any more.`;
  };
  if (!row.leaseActive) return null;
  return html`<${ActionButton} label="Release" isQuiet role="read-write" name=${`Release ${row.partition}`}
    title="Release the lease" action="Release" run=${run}>
    <p>The lease of ${groupLabel(name)} on <code>${visible(row.partition)}</code> ends now. Its messages can be had again at once, and acks of the
      consumer that holds them are refused.</p>
  </${ActionButton}>`;
}
