/**
 * PostgreSQL: tables, dead rows and what keeps them, indexes, running and slow statements.
 */
import { Badge, Button, Fact, Time } from "../../components/basics.js";
import { Card, Show } from "../../components/page.js";
import { DataTable, parseSort, sorted, sortText } from "../../components/table.js";
import { get } from "../../lib/api.js";
import { bytes, count, duration, milliseconds, percent, short } from "../../lib/format.js";
import { useResource } from "../../lib/poll.js";
import { setQuery } from "../../lib/router.js";
import { useMemo, html } from "../../lib/ui.js";

/**
 * @typedef {import("../../lib/types.js").PostgresStats} PostgresStats
 * @typedef {import("../../lib/types.js").ActiveQuery} ActiveQuery
 * @typedef {import("../../lib/types.js").IndexCache} IndexCache
 * @typedef {import("../../lib/types.js").SlowStatement} SlowStatement
 * @typedef {import("../../lib/types.js").XminHolder} XminHolder
 * @typedef {import("../../components/table.js").Sort} Sort
 * @typedef {{table: string, bytes: number, indexBytes: number, live: number, dead: number, vacuumAt: number, lastVacuum: string | null, hitRatio: number | null}} TableRow
 */

/** The least used indexes say the least, and so do the smallest tables. */
const INDEXES_MAX = 10;
const TABLES_SHOWN = 12;

/** @param {{query: Record<string, string>}} props */
export function Postgres({ query }) {
  const stats = useResource((signal) => get("/api/v1/analytics/postgres-stats", {}, { signal }), { everyMs: 15_000 });
  return html`<${Show} of=${stats} what="the statistics">${(/** @type {PostgresStats} */ data) => html`<${Body} data=${data} query=${query} />`}</${Show}>`;
}

/** @param {PostgresStats} data @returns {TableRow[]} */
export function tableRows(data) {
  const dead = new Map(data.deadTuples.map((row) => [row.table, row]));
  const vacuum = new Map(data.autovacuumStatus.map((row) => [row.table, row]));
  const cache = new Map(data.tableCache.map((row) => [row.table, row]));
  return data.tableSizes.map((row) => ({
    table: row.table, bytes: row.tableBytes, indexBytes: row.indexBytes, live: dead.get(row.table)?.liveRows ?? 0, dead: dead.get(row.table)?.deadRows ?? 0,
    vacuumAt: vacuum.get(row.table)?.vacuumAtDeadRows ?? 0, lastVacuum: dead.get(row.table)?.lastVacuum ?? null, hitRatio: cache.get(row.table)?.hitRatio ?? null,
  }));
}

/** @type {import("../../components/table.js").Column<TableRow>[]} */
const TABLE_COLUMNS = [
  { id: "table", title: "Table", sort: (row) => row.table, cell: (row) => html`<span class="strong mono">${row.table}</span>` },
  { id: "size", title: "Size", align: "end", sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
  { id: "indexes", title: "Indexes", align: "end", isWide: true, sort: (row) => row.indexBytes, cell: (row) => bytes(row.indexBytes) },
  { id: "live", title: "Rows", align: "end", sort: (row) => row.live, cell: (row) => short(row.live) },
  {
    id: "dead", title: "Dead rows", align: "end", sort: (row) => row.dead,
    cell: (row) => html`<span title=${`A vacuum is due at ${count(row.vacuumAt)}`}>${row.dead > row.vacuumAt ? html`<${Badge} tone="warning">${short(row.dead)}</${Badge}>` : short(row.dead)}</span>`,
  },
  { id: "hits", title: "Cache hits", align: "end", isWide: true, sort: (row) => row.hitRatio ?? -1, cell: (row) => (row.hitRatio === null ? "–" : percent(row.hitRatio / 100)) },
  { id: "vacuum", title: "Vacuumed", align: "end", isWide: true, sort: (row) => row.lastVacuum ?? "", cell: (row) => html`<${Time} at=${row.lastVacuum} relative />` },
];

/** @type {import("../../components/table.js").Column<XminHolder>[]} */
const HOLDER_COLUMNS = [
  { id: "what", title: "Held by", cell: (row) => html`<span class="name">${row.what}</span>` },
  { id: "age", title: "Transactions", align: "end", cell: (row) => short(row.xidAge) },
  { id: "for", title: "For", align: "end", cell: (row) => duration(row.seconds) },
];

/** @type {import("../../components/table.js").Column<ActiveQuery>[]} */
const ACTIVE_COLUMNS = [
  { id: "query", title: "Statement", cell: (row) => html`<code class="query-text">${row.query}</code><span class="muted sub">${row.application || "no name"}, process ${row.pid}</span>` },
  { id: "waits", title: "Waits for", isWide: true, cell: (row) => (row.waitEvent ? `${row.waitType} ${row.waitEvent}` : "–") },
  { id: "for", title: "For", align: "end", cell: (row) => duration(row.seconds) },
];

/** @type {import("../../components/table.js").Column<SlowStatement>[]} */
const SLOW_COLUMNS = [
  { id: "query", title: "Statement", cell: (row) => html`<code class="query-text">${row.query}</code>` },
  { id: "total", title: "In all", align: "end", cell: (row) => milliseconds(row.totalMs) },
  { id: "mean", title: "Mean", align: "end", cell: (row) => milliseconds(row.meanMs) },
  { id: "max", title: "Longest", align: "end", isWide: true, cell: (row) => milliseconds(row.maxMs) },
  { id: "calls", title: "Calls", align: "end", isWide: true, cell: (row) => short(row.calls) },
];

/** @type {import("../../components/table.js").Column<IndexCache>[]} */
const INDEX_COLUMNS = [
  { id: "index", title: "Index", cell: (row) => html`<span class="mono name">${row.index}</span><span class="muted sub">${row.table}</span>` },
  { id: "read", title: "Blocks", align: "end", cell: (row) => short(row.blocksHit + row.blocksRead) },
  { id: "hits", title: "Cache hits", align: "end", cell: (row) => (row.hitRatio === null ? "–" : percent(row.hitRatio / 100)) },
];

/** @param {{data: PostgresStats, query: Record<string, string>}} props */
function Body({ data, query }) {
  const sort = parseSort(query.sort, { by: "size", isDown: true });
  const rows = useMemo(() => tableRows(data), [data]);
  const indexes = [...data.indexCache].sort((one, other) => other.blocksHit + other.blocksRead - one.blocksHit - one.blocksRead).slice(0, INDEXES_MAX);
  const isAll = query.tables === "all";
  const shown = sorted(rows, TABLE_COLUMNS, sort).slice(0, isAll ? rows.length : TABLES_SHOWN);
  const of = (/** @type {unknown} */ found) => ({ data: found, error: null, isLoading: false, at: 0, reload: () => {} });
  const { databaseCache: database, slowStatements: slow } = data;
  return html`
    <${Card} title=${`Database ${data.database}`}>
      <dl class="facts">
        <${Fact} label="Size">${bytes(database.bytes)}</${Fact}>
        <${Fact} label="Cache hits">${database.hitRatio === null ? "–" : percent(database.hitRatio / 100)}</${Fact}>
        <${Fact} label="Commits">${short(database.commits)}</${Fact}>
        <${Fact} label="Rollbacks">${short(database.rollbacks)}</${Fact}>
        <${Fact} label="Deadlocks">${count(database.deadlocks)}</${Fact}>
        <${Fact} label="Temporary files">${bytes(database.tempBytes)}</${Fact}>
        ${Object.entries(data.bufferConfig).map(([name, value]) => html`<${Fact} key=${name} label=${`${name.charAt(0).toUpperCase()}${name.slice(1).replaceAll("_", " ")}`}>${value}</${Fact}>`)}
      </dl>
    </${Card}>
    <div class="below"><${Card} title="Tables" flush actions=${rows.length > TABLES_SHOWN && html`<${Button} kind="quiet" aria-expanded=${isAll}
      onClick=${() => setQuery({ tables: isAll ? null : "all" })}>${isAll ? "Show fewer" : `Show all ${rows.length}`}</${Button}>`}>
      <${DataTable} label="Tables" columns=${TABLE_COLUMNS} of=${of(shown)} rowKey=${(/** @type {TableRow} */ row) => row.table}
        sort=${sort} onSort=${(/** @type {Sort} */ next) => setQuery({ sort: sortText(next) })} />
    </${Card}></div>
    <div class="pair">
      <${Card} title="Oldest snapshots" note="They keep dead rows from being removed" flush>
        <${DataTable} label="Oldest snapshots" columns=${HOLDER_COLUMNS} of=${of(data.xminHolders)} rowKey=${(/** @type {XminHolder} */ row) => `${row.what} ${row.xidAge}`}
          empty=${{ title: "Nothing holds dead rows back" }} />
      </${Card}>
      <${Card} title="Busiest indexes" flush>
        <${DataTable} label="Busiest indexes" columns=${INDEX_COLUMNS} of=${of(indexes)} rowKey=${(/** @type {IndexCache} */ row) => row.index} />
      </${Card}>
    </div>
    <div class="below"><${Card} title="Running statements" flush>
      <${DataTable} label="Running statements" columns=${ACTIVE_COLUMNS} of=${of(data.activeQueries)} rowKey=${(/** @type {ActiveQuery} */ row) => String(row.pid)}
        empty=${{ title: "Nothing runs just now", text: "A role without pg_monitor sees its own statements only." }} />
    </${Card}></div>
    <div class="below"><${Card} title="Statements that took most time" flush>
      <${DataTable} label="Statements that took most time" columns=${SLOW_COLUMNS} of=${of(slow ?? [])} rowKey=${(/** @type {SlowStatement} */ row) => row.query}
        empty=${slow
          ? { title: "Nothing counted yet" }
          : { title: "PostgreSQL does not count statements here", text: html`Load <code>pg_stat_statements</code> with shared_preload_libraries, then run <code>CREATE EXTENSION pg_stat_statements</code>.` }} />
    </${Card}></div>`;
}
