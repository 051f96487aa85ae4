/**
 * One consumer group: its state on each queue, lag over time, cursors and leases, and what steers it.
 */
import { ActionButton } from "../../components/action.js";
import { Badge, Button, Fact, Time } from "../../components/basics.js";
import { Chart } from "../../components/chart.js";
import { RangePicker } from "../../components/controls.js";
import { Card, Empty, PageHeader, Show } from "../../components/page.js";
import { DataTable, parseSort, sorted, sortText } from "../../components/table.js";
import { Tabs } from "../../components/tabs.js";
import { get, path, send } from "../../lib/api.js";
import { count, duration, milliseconds, plural, short } from "../../lib/format.js";
import { groupLabel, lagSamples, sampleKey } from "../../lib/groups.js";
import { useResource } from "../../lib/poll.js";
import { go, link, setQuery } from "../../lib/router.js";
import { may, range, rangeQuery, useValue } from "../../lib/store.js";
import { useMemo, useState, html } from "../../lib/ui.js";
import { GroupState, useGroups } from "./list.js";
import { SeekDialog } from "./seek.js";

/**
 * @typedef {import("../../lib/types.js").ConsumerGroup} ConsumerGroup
 * @typedef {import("../../lib/types.js").GroupPartition} GroupPartition
 * @typedef {import("../../lib/types.js").GroupQueue} GroupQueue
 * @typedef {import("../../lib/types.js").GroupStream} GroupStream
 * @typedef {import("../../lib/types.js").QueueLagPoint} QueueLagPoint
 * @typedef {import("../../components/table.js").Sort} Sort
 */

const PAGE = 50;

export const view = { path: "/groups/:group", title: "Consumer group", under: "/groups", component: Group };

/** @param {import("../registry.js").ViewProps} props */
function Group({ params, query }) {
  const name = params.group ?? "";
  const label = groupLabel(name);
  const groups = useGroups();
  const own = groups.data?.filter((one) => one.name === name) ?? null;
  const queues = [...new Set((own ?? []).map((one) => one.queueName))].sort();
  const queue = query.queue && queues.includes(query.queue) ? query.queue : queues[0];
  const isPaused = Boolean(own?.some((one) => one.isPaused));
  return html`
    <${PageHeader} title=${label} crumbs=${[{ label: "Consumer groups", href: "#/groups" }]}
      note=${own && (queues.length ? `On ${plural(queues.length, "queue")}.` : "No queue knows this group.")}>
      <${RangePicker} />
      ${own && html`<${Steering} name=${name} isPaused=${isPaused} onDone=${groups.reload} />`}
    </${PageHeader}>
    <${Show} of=${groups} what="the group">${() => (queue === undefined
      ? html`<${Empty} title="There is no such group" icon="groups"><a href="#/groups">See all groups</a></${Empty}>`
      : html`
        ${queues.length > 1 && html`<${Tabs} label="Queues" active=${queue}
          tabs=${queues.map((one) => ({ id: one, label: one, href: link("groups", name, { queue: one }) }))} />`}
        <${OnQueue} key=${queue} name=${name} queue=${queue} rows=${(own ?? []).filter((one) => one.queueName === queue)}
          query=${query} onMoved=${groups.reload} />`)}</${Show}>`;
}

/** @param {{name: string, isPaused: boolean, onDone: () => void}} props */
function Steering({ name, isPaused, onDone }) {
  const label = groupLabel(name);
  const pause = async () => {
    await send("POST", isPaused ? path`/api/v1/consumer-groups/${name}/resume` : path`/api/v1/consumer-groups/${name}/pause`);
    onDone();
    return isPaused ? `Resumed ${label}.` : `Paused ${label}.`;
  };
  const remove = async () => {
    const { deletedPartitions } = /** @type {import("../../lib/types.js").GroupDeleted} */ (
      await send("DELETE", path`/api/v1/consumer-groups/${name}`));
    go("#/groups");
    return `Deleted ${label}: ${plural(deletedPartitions, "cursor")} forgotten.`;
  };
  return html`
    <${ActionButton} label=${isPaused ? "Resume" : "Pause"} icon=${isPaused ? "play" : "pause"} role="read-write"
      title=${isPaused ? `Resume ${label}` : `Pause ${label}`} action=${isPaused ? "Resume" : "Pause"} run=${pause}>
      ${isPaused
        ? html`<p>The group gets messages again at once, on all queues.</p>`
        : html`<p>The group gets nothing more, on all queues and from all brokers, until it is resumed. Other brokers follow within
            two seconds. What is under lease can still be acked.</p>`}
    </${ActionButton}>
    <${ActionButton} label="Delete" icon="trash" role="admin" title=${`Delete ${label}`} action="Delete group" typed=${name} run=${remove}>
      <p>All its cursors, leases and remembered starts are forgotten, on all queues. Acks under its leases are refused. Its dead
        letters stay.</p>
      <p>The next pop of that name starts anew and may get every message again.</p>
    </${ActionButton}>`;
}

/** @param {{name: string, queue: string, rows: ConsumerGroup[], query: Record<string, string>, onMoved: () => void}} props */
function OnQueue({ name, queue, rows, query, onMoved }) {
  const [isSeek, setSeek] = useState(false);
  const detail = useResource((signal) => get(path`/api/v1/consumer-groups/${name}`, {}, { signal }), { everyMs: 5_000, inputs: [name] });
  const consumer = rows.find((one) => one.kind === "consumer");
  const found = /** @type {Record<string, GroupQueue> | null} */ (detail.data)?.[queue];
  const reload = () => {
    onMoved();
    detail.reload();
  };
  return html`
    ${rows.map((row) => html`<${Summary} key=${row.kind} row=${row} onSeek=${row.kind === "consumer" ? () => setSeek(true) : undefined} />`)}
    <${Charts} name=${name} queue=${queue} />
    ${found?.streams && html`<${Streams} of=${{ ...detail, data: found.streams }} />`}
    ${consumer && html`<${Partitions} name=${name} queue=${queue} query=${query} of=${{ ...detail, data: detail.data && (found?.partitions ?? []) }} onDone=${reload} />`}
    ${isSeek && html`<${SeekDialog} group=${name} queue=${queue} onClose=${() => setSeek(false)} onMoved=${reload} />`}`;
}

/** @param {{row: ConsumerGroup, onSeek?: () => void}} props */
function Summary({ row, onSeek }) {
  const isSpark = row.kind === "spark";
  const start = row.subscriptionMode && html`${row.subscriptionMode} <span class="muted"><${Time} at=${row.subscriptionTimestamp} /></span>`;
  return html`<${Card} title=${isSpark ? "Spark streams" : "Consumers"} note=${html`on <a href=${link("queues", row.queueName)}>${row.queueName}</a>`}
    actions=${onSeek
      ? html`<${Button} icon="seek" disabled=${!may("read-write")} title=${may("read-write") ? undefined : "This needs the role read-write"} onClick=${onSeek}>Seek</${Button}>`
      : html`<span class="muted card-note">Only its checkpoint moves a stream.</span>`}>
    <dl class="facts">
      <${Fact} label="State"><${GroupState} row=${row} /></${Fact}>
      <${Fact} label="Lag"><span title=${count(row.totalLag)}>${short(row.totalLag)}</span> <span class="muted">messages</span></${Fact}>
      <${Fact} label="Oldest waiting">${row.totalLag ? duration(row.maxTimeLag) : "–"}</${Fact}>
      ${isSpark
        ? html`<${Fact} label="Streams">${count(row.members)}</${Fact}><${Fact} label="Published"><${Time} at=${row.updatedAt} relative /></${Fact}>`
        : html`<${Fact} label="Cursors">${short(row.members)} <span class="muted">partitions</span></${Fact}>
          <${Fact} label="Behind in">${short(row.partitionsWithLag)} <span class="muted">partitions</span></${Fact}>
          <${Fact} label="Started at">${start || "oldest message"}</${Fact}>`}
    </dl>
  </${Card}>`;
}

/** @param {{name: string, queue: string}} props */
function Charts({ name, queue }) {
  const chosen = useValue(range);
  const samples = useValue(lagSamples);
  const waits = useResource((signal) => get("/api/v1/analytics/queue-lag", { ...rangeQuery(), queue }, { signal }), {
    everyMs: 20_000, inputs: [queue, chosen], keep: true,
  });
  const values = samples.lags.get(sampleKey(name, queue)) ?? [];
  const lag = useMemo(() => ({ times: samples.times, lines: [{ label: "Messages before the group", values, color: 4 }] }), [samples]);
  const wait = useMemo(() => {
    const points = [.../** @type {QueueLagPoint[]} */ (waits.data ?? [])].sort((one, other) => (one.bucketTime < other.bucketTime ? -1 : 1));
    return {
      times: points.map((point) => Date.parse(point.bucketTime) / 1000),
      lines: [
        { label: "Average", values: points.map((point) => point.avgLagMs), color: 1 },
        { label: "Longest", values: points.map((point) => point.maxLagMs), color: 4 },
      ],
    };
  }, [waits.data]);
  return html`<div class="charts">
    <${Card}><${Chart} title="Lag while you watch" format=${short} empty="The line begins with the second look." ...${lag} /></${Card}>
    <${Card}>
      <${Chart} title="Wait before delivery, all groups of the queue" format=${milliseconds} empty="Too little was delivered in this time range to draw." ...${wait} />
    </${Card}>
  </div>`;
}

/** @type {import("../../components/table.js").Column<GroupStream>[]} */
const STREAM_COLUMNS = [
  { id: "id", title: "Stream", cell: (row) => html`<span class="mono">${row.queryId}</span>` },
  { id: "position", title: "Position", align: "end", cell: (row) => html`<span class="mono">${row.position}</span>` },
  { id: "lag", title: "Lag", align: "end", cell: (row) => short(row.offsetLag) },
  { id: "age", title: "Oldest", align: "end", cell: (row) => duration(row.timeLagSeconds) },
  { id: "seen", title: "Published", align: "end", cell: (row) => html`<${Time} at=${row.updatedAt} relative />` },
];

/** @param {{of: import("../../lib/poll.js").Resource<GroupStream[]>}} props */
const Streams = ({ of }) => html`<div class="below"><${Card} title="Spark streams" flush>
  <${DataTable} label="Spark streams" columns=${STREAM_COLUMNS} of=${of} rowKey=${(/** @type {GroupStream} */ row) => row.queryId} />
</${Card}></div>`;

/**
 * @param {{name: string, queue: string, query: Record<string, string>,
 *   of: import("../../lib/poll.js").Resource<GroupPartition[]>, onDone: () => void}} props
 */
function Partitions({ name, queue, query, of, onDone }) {
  const sort = parseSort(query.sort, { by: "lag", isDown: true });
  const offset = Number(query.offset ?? 0) || 0;
  const columns = useMemo(() => partitionColumns(name, queue, onDone), [name, queue]);
  const rows = of.data && sorted(of.data, columns, sort).slice(offset, offset + PAGE);
  return html`<div class="below"><${Card} title="Cursors and leases" flush>
    <${DataTable} label="Cursors and leases" columns=${columns} of=${{ ...of, data: rows }} rowKey=${(/** @type {GroupPartition} */ row) => row.partition}
      sort=${sort} onSort=${(/** @type {Sort} */ next) => setQuery({ sort: sortText(next), offset: null })}
      empty=${{ title: "No partitions yet", text: "The group has visited none, and none has messages for it." }}
      page=${{ offset, limit: PAGE, shown: rows?.length ?? 0, total: of.data?.length ?? 0, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }) }} />
  </${Card}></div>`;
}

/** @param {string} name @param {string} queue @param {() => void} onDone @returns {import("../../components/table.js").Column<GroupPartition>[]} */
function partitionColumns(name, queue, onDone) {
  return [
    { id: "partition", title: "Partition", sort: (row) => row.partition, cell: (row) => html`<a class="strong name" href=${link("queues", queue, "partitions", row.partition)}>${row.partition}</a>` },
    { id: "lease", title: "Lease", sort: (row) => Number(row.leaseActive), cell: (row) => (row.leaseActive ? html`<${Badge} tone="accent">held</${Badge}>` : html`<span class="muted">free</span>`) },
    { id: "lag", title: "Lag", align: "end", sort: (row) => row.offsetLag, cell: (row) => short(row.offsetLag) },
    { id: "age", title: "Oldest", align: "end", sort: (row) => row.timeLagSeconds, cell: (row) => (row.offsetLag ? duration(row.timeLagSeconds) : "–") },
    { id: "consumed", title: "Consumed", align: "end", isWide: true, sort: (row) => row.totalConsumed, cell: (row) => short(row.totalConsumed) },
    { id: "last", title: "Last", align: "end", isWide: true, sort: (row) => row.lastConsumedAt ?? "", cell: (row) => html`<${Time} at=${row.lastConsumedAt} relative />` },
    {
      id: "act", title: "Actions", align: "end",
      cell: (row) => html`<${Release} name=${name} queue=${queue} row=${row} onDone=${onDone} />`,
    },
  ];
}

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
    <p>The lease of ${groupLabel(name)} on <code>${row.partition}</code> ends now. Its messages can be had again at once, and acks of the
      consumer that holds them are refused.</p>
  </${ActionButton}>`;
}
