/**
 * All consumer groups, one line per group and queue: consumers and Spark streams side by side.
 */
import { Badge } from "../../components/basics.js";
import { RangePicker } from "../../components/controls.js";
import { Card, PageHeader } from "../../components/page.js";
import { SearchBox } from "../../components/search.js";
import { Sparkline } from "../../components/sparkline.js";
import { DataTable, parseSort, sorted, sortText } from "../../components/table.js";
import { get } from "../../lib/api.js";
import { count, duration, short, visible } from "../../lib/format.js";
import { groupLabel, lagKey, lagSteps, useGroupLag } from "../../lib/groups.js";
import { useResource } from "../../lib/poll.js";
import { link, setQuery } from "../../lib/router.js";
import { useMemo, html } from "../../lib/ui.js";

/** @typedef {import("../../lib/types.js").ConsumerGroup} ConsumerGroup */
/** @typedef {ConsumerGroup & {trend: (number | null)[]}} Row */

/** Groups whose lag is drawn: as many as brokers write down. */
const DRAWN_MAX = 200;

const PAGE = 50;
const KINDS = [
  { id: "", label: "All" },
  { id: "consumer", label: "Consumers" },
  { id: "spark", label: "Spark streams" },
];

export const view = {
  path: "/groups",
  title: "Consumer groups",
  nav: { label: "Groups", icon: "groups", key: "c", group: "Watch" },
  component: Groups,
};

/**
 * The state of a group in a word.
 * @param {{row: ConsumerGroup}} props
 */
export function GroupState({ row }) {
  if (row.isPaused) return html`<${Badge} tone="warning" title="Nothing is handed out to it until it is resumed">paused</${Badge}>`;
  if (row.state === "Lagging") return html`<${Badge} tone="danger" title="Its oldest message has waited for over 5 minutes">lagging</${Badge}>`;
  if (row.state === "Dead") return html`<${Badge} title="It has no cursor, and the queue has no partition">unused</${Badge}>`;
  return html`<${Badge} tone="good">stable</${Badge}>`;
}

/** @type {import("../../components/table.js").Column<Row>[]} */
const COLUMNS = [
  {
    id: "name", title: "Group", sort: (row) => row.name,
    cell: (row) => html`<a class="strong name" href=${link("groups", row.name, { queue: row.queueName })}>${groupLabel(row.name)}</a>
      ${row.kind === "spark" && html` <${Badge} tone="accent">Spark</${Badge}>`}
      <span class="muted sub name phone-only">${visible(row.queueName)}</span>`,
  },
  { id: "queue", title: "Queue", isWide: true, sort: (row) => row.queueName, cell: (row) => html`<a class="name" href=${link("queues", row.queueName)}>${visible(row.queueName)}</a>` },
  { id: "state", title: "State", sort: (row) => (row.isPaused ? "Paused" : row.state), cell: (row) => html`<${GroupState} row=${row} />` },
  {
    id: "trend", title: "Lag over time", isWide: true,
    cell: (row) => html`<${Sparkline} values=${row.trend} label=${`Lag of ${groupLabel(row.name)} on ${row.queueName} over time`} />`,
  },
  { id: "lag", title: "Lag", align: "end", sort: (row) => row.totalLag, cell: (row) => html`<span title=${count(row.totalLag)}>${short(row.totalLag)}</span>` },
  { id: "age", title: "Oldest", align: "end", sort: (row) => row.maxTimeLag, cell: (row) => (row.totalLag ? duration(row.maxTimeLag) : "–") },
  { id: "late", title: "Partitions behind", align: "end", isWide: true, sort: (row) => row.partitionsWithLag ?? -1, cell: (row) => count(row.partitionsWithLag) },
  {
    id: "members", title: "Cursors", align: "end", isWide: true, sort: (row) => row.members,
    cell: (row) => html`<span title=${row.kind === "spark" ? "streams" : "partitions in which the group has a cursor"}>${short(row.members)}</span>`,
  },
];

/** @param {import("../registry.js").ViewProps} props */
function Groups({ query }) {
  const search = query.search ?? "";
  const kind = query.kind ?? "";
  const sort = parseSort(query.sort, { by: "lag", isDown: true });
  const offset = Number(query.offset ?? 0) || 0;
  const groups = useGroups();
  const history = useGroupLag({ limit: DRAWN_MAX });
  const lags = useMemo(() => (history.data ? lagSteps(history.data).groups : new Map()), [history.data]);
  const all = useMemo(() => groups.data && groups.data
    .filter((one) => (!kind || one.kind === kind) && matches(one, search))
    .map((one) => ({ ...one, trend: trendOf(lags, one) })), [groups.data, lags, kind, search]);
  const rows = all && sorted(all, COLUMNS, sort).slice(offset, offset + PAGE);
  return html`
    <${PageHeader} title="Consumer groups">
      <${RangePicker} />
      <div class="segments" role="group" aria-label="Kind">${KINDS.map((one) => html`<button key=${one.id} type="button"
        aria-pressed=${one.id === kind} onClick=${() => setQuery({ kind: one.id, offset: null })}>${one.label}</button>`)}</div>
      <${SearchBox} label="Search groups" value=${search} onSearch=${(/** @type {string} */ text) => setQuery({ search: text, offset: null })} />
    </${PageHeader}>
    <${Card} flush>
      <${DataTable} label="Consumer groups" columns=${COLUMNS} of=${{ ...groups, data: rows }}
        rowKey=${(/** @type {Row} */ row) => lagKey(row.name, row.queueName, row.kind)}
        sort=${sort} onSort=${(/** @type {typeof sort} */ next) => setQuery({ sort: sortText(next), offset: null })}
        empty=${search || kind
          ? { title: "No group matches", text: "Search looks in the names of groups and of their queues." }
          : { title: "No consumer groups yet", text: "A group is there from its first pop on." }}
        page=${{ offset, limit: PAGE, shown: rows?.length ?? 0, total: all?.length ?? 0, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }) }} />
    </${Card}>`;
}

/** All groups, every five seconds. */
export function useGroups() {
  /** @type {(signal: AbortSignal) => Promise<ConsumerGroup[]>} */
  const load = (signal) => get("/api/v1/consumer-groups", {}, { signal });
  return useResource(load, { everyMs: 5_000 });
}

/** The lag as it was written down, and at the end as it is. @param {Map<string, ({lag: number} | null | undefined)[]>} lags @param {ConsumerGroup} group */
function trendOf(lags, group) {
  const points = lags.get(lagKey(group.name, group.queueName, group.kind)) ?? [];
  return points.length ? [...points.filter((point) => point !== undefined).map((point) => point?.lag ?? null), group.totalLag] : [];
}

/** @param {ConsumerGroup} group @param {string} search */
function matches(group, search) {
  const text = search.toLowerCase();
  return `${groupLabel(group.name)}\n${group.queueName}`.toLowerCase().includes(text);
}
