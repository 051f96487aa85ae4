/**
 * One consumer group: its state on each queue, lag over time, cursors and leases, and what steers it.
 */
import { ActionButton } from "../../components/action.js";
import { Button, Fact, Time } from "../../components/basics.js";
import { Chart } from "../../components/chart.js";
import { RangePicker } from "../../components/controls.js";
import { Card, Empty, PageHeader, Show } from "../../components/page.js";
import { DataTable } from "../../components/table.js";
import { Tabs } from "../../components/tabs.js";
import { get, path, send } from "../../lib/api.js";
import { count, duration, plural, short, visible } from "../../lib/format.js";
import { groupLabel, lagKey, lagSteps, useGroupLag } from "../../lib/groups.js";
import { useResource } from "../../lib/poll.js";
import { go, link } from "../../lib/router.js";
import { may } from "../../lib/store.js";
import { useMemo, useState, html } from "../../lib/ui.js";
import { GroupState, useGroups } from "./list.js";
import { Partitions } from "./partitions.js";
import { SeekDialog } from "./seek.js";

/**
 * @typedef {import("../../lib/types.js").ConsumerGroup} ConsumerGroup
 * @typedef {import("../../lib/types.js").GroupQueue} GroupQueue
 * @typedef {import("../../lib/types.js").GroupStream} GroupStream
 */

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
  const detail = useResource((signal) => get(path`/api/v1/consumer-groups/${name}`, { partitions: false }, { signal }), { everyMs: 10_000, inputs: [name] });
  const consumer = rows.find((one) => one.kind === "consumer");
  const found = /** @type {Record<string, GroupQueue> | null} */ (detail.data)?.[queue];
  const reload = () => {
    onMoved();
    detail.reload();
  };
  return html`
    ${rows.map((row) => html`<${Summary} key=${row.kind} row=${row} onSeek=${row.kind === "consumer" ? () => setSeek(true) : undefined} />`)}
    <${Charts} name=${name} queue=${queue} kind=${rows[0]?.kind ?? "consumer"} />
    ${found?.streams && html`<${Streams} of=${{ ...detail, data: found.streams }} />`}
    ${consumer && html`<${Partitions} name=${name} queue=${queue} query=${query} onDone=${reload} />`}
    ${isSeek && html`<${SeekDialog} group=${name} queue=${queue} onClose=${() => setSeek(false)} onMoved=${reload} />`}`;
}

/** @param {{row: ConsumerGroup, onSeek?: () => void}} props */
function Summary({ row, onSeek }) {
  const isSpark = row.kind === "spark";
  const start = row.subscriptionMode && html`${row.subscriptionMode} <span class="muted"><${Time} at=${row.subscriptionTimestamp} /></span>`;
  return html`<${Card} title=${isSpark ? "Spark streams" : "Consumers"} note=${html`on <a href=${link("queues", row.queueName)}>${visible(row.queueName)}</a>`}
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

/** @param {{name: string, queue: string, kind: string}} props */
function Charts({ name, queue, kind }) {
  const history = useGroupLag({ queue, consumerGroup: name });
  const charts = useMemo(() => (history.data ? chartsOf(history.data, lagKey(name, queue, kind)) : []), [history.data, kind]);
  return html`<${Show} of=${history} what="the lag over time">${() => html`<div class="charts">
    ${charts.map((chart) => html`<${Card} key=${chart.title}><${Chart} ...${chart} empty="Brokers write the lag down once a minute. The line begins with the second minute." /></${Card}>`)}
  </div>`}</${Show}>`;
}

/** @param {import("../../lib/types.js").GroupLag} data @param {string} key */
function chartsOf(data, key) {
  const { times, groups } = lagSteps(data);
  const points = groups.get(key) ?? [];
  const span = { from: Date.parse(data.timeRange.from) / 1000, to: Date.parse(data.timeRange.to) / 1000 };
  /** @param {string} label @param {"lag" | "maxLag" | "maxTimeLag"} field @param {number} color */
  const line = (label, field, color) => ({ label, color, values: points.map((point) => point && point[field]) });
  // In steps of a minute there is one look in each.
  const lag = data.bucketMinutes > 1 ? [line("Average", "lag", 1), line("Highest", "maxLag", 4)] : [line("Messages before the group", "lag", 1)];
  return [
    { title: "Lag", format: short, isWhole: true, times, span, lines: lag },
    { title: "Age of the oldest message", format: duration, times, span, lines: [line("Oldest", "maxTimeLag", 4)] },
  ];
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
