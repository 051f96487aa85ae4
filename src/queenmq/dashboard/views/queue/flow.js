/**
 * What flows through a queue over time, and how far its groups are.
 */
import { Badge, Time } from "../../components/basics.js";
import { Chart } from "../../components/chart.js";
import { Card, Show } from "../../components/page.js";
import { DataTable } from "../../components/table.js";
import { get } from "../../lib/api.js";
import { bytes, count, duration, milliseconds, rate, short } from "../../lib/format.js";
import { groupLabel, lagSteps, useGroupLag } from "../../lib/groups.js";
import { useResource } from "../../lib/poll.js";
import { link } from "../../lib/router.js";
import { range, rangeQuery, useValue } from "../../lib/store.js";
import { useMemo, html } from "../../lib/ui.js";

/**
 * @typedef {import("../../lib/types.js").QueueOps} QueueOps
 * @typedef {import("../../lib/types.js").QueueOpsPoint} Point
 * @typedef {import("../../lib/types.js").ConsumerGroup} ConsumerGroup
 */

/** @param {string} queue */
export function useHistory(queue) {
  const chosen = useValue(range);
  /** @type {(signal: AbortSignal) => Promise<QueueOps>} */
  const load = (signal) => get("/api/v1/analytics/queue-ops", { ...rangeQuery(), queue }, { signal });
  return useResource(load, { everyMs: 20_000, inputs: [queue, chosen], keep: true });
}

/**
 * A point for each step from the first that was counted: one without a row had no traffic.
 * @param {QueueOps} data
 * @returns {{time: number, point: Point | null}[]}
 */
export function stepsOf({ series, bucketMinutes }) {
  const byTime = new Map(series.map((point) => [Date.parse(point.bucket) / 1000, point]));
  const times = [...byTime.keys()].sort((one, other) => one - other);
  const [first, last] = [times[0] ?? 0, times.at(-1) ?? -1];
  const steps = [];
  for (let time = first; time <= last; time += bucketMinutes * 60) steps.push({ time, point: byTime.get(time) ?? null });
  return steps;
}

/** @param {QueueOps} data */
function chartsOf(data) {
  const steps = stepsOf(data);
  const times = steps.map((step) => step.time);
  const span = { from: Date.parse(data.timeRange.from) / 1000, to: Date.parse(data.timeRange.to) / 1000 };
  const line = (/** @type {string} */ label, /** @type {keyof Point} */ field, /** @type {number} */ color) => ({
    label, color, values: steps.map(({ point }) => Number(point?.[field] ?? 0)),
  });
  // A step without deliveries has no delivery time, which is not a time of zero.
  const lag = (/** @type {string} */ label, /** @type {"avgLagMs" | "maxLagMs"} */ field, /** @type {number} */ color) => ({
    label, color, values: steps.map(({ point }) => (point?.popMessages ? point[field] : null)),
  });
  return [
    {
      title: "Messages per second", format: rate,
      lines: [line("Pushed", "pushPerSecond", 1), line("Delivered", "popPerSecond", 2), { ...line("Acked", "ackPerSecond", 3), isDashed: true }],
    },
    { title: "Time from push to delivery", format: milliseconds, lines: [lag("Average", "avgLagMs", 1), lag("Longest", "maxLagMs", 4)] },
    {
      title: "Trouble per step", format: short, isWhole: true,
      lines: [line("Failed acks", "ackFailed", 4), line("Dead letters", "dlqCount", 5), line("Duplicates", "duplicates", 6)],
    },
    { title: "Consumers", format: short, isWhole: true, lines: [line("Parked pops", "parkedCount", 2), line("Empty pops", "popEmpty", 3)] },
    {
      title: "Bytes pushed per second", format: bytes,
      lines: [{ label: "Pushed", color: 1, values: steps.map(({ point }) => (point?.pushBytes ?? 0) / (60 * data.bucketMinutes)) }],
    },
  ].map((chart) => ({ ...chart, times, span }));
}

/** Groups whose lag is drawn, those with the most before them: a chart has six colours. */
const LINES_MAX = 6;

/** @param {{queue: string, of: import("../../lib/poll.js").Resource<QueueOps>}} props */
export function QueueCharts({ queue, of }) {
  return html`<${Show} of=${of} what="the history">${(/** @type {QueueOps} */ data) => html`<${Charts} queue=${queue} data=${data} />`}</${Show}>`;
}

/** @param {{queue: string, data: QueueOps}} props */
function Charts({ queue, data }) {
  const charts = useMemo(() => chartsOf(data), [data]);
  const lag = useGroupLag({ queue, limit: LINES_MAX });
  const lines = useMemo(() => (lag.data ? lagOf(lag.data) : { times: [], lines: [] }), [lag.data]);
  const span = { from: Date.parse(data.timeRange.from) / 1000, to: Date.parse(data.timeRange.to) / 1000 };
  const [first, ...others] = charts;
  return html`<div class="charts">
    <${Card}><${Chart} ...${first} /></${Card}>
    <${Card}><${Show} of=${lag} what="the lag of groups">${() => html`<${Chart} title="Lag by group" format=${short} isWhole span=${span} ...${lines}
      empty="Brokers write the lag of groups down once a minute." />`}</${Show}></${Card}>
    ${others.map((chart) => html`<${Card} key=${chart.title}><${Chart} ...${chart} /></${Card}>`)}
  </div>`;
}

/** @param {import("../../lib/types.js").GroupLag} data */
function lagOf(data) {
  const { times, groups } = lagSteps(data);
  const lines = [...groups].map(([key, points], index) => ({
    label: labelOf(key), color: index + 1, values: points.map((point) => point && point.maxLag),
  }));
  return { times, lines };
}

/** @param {string} key Of `lagKey`. */
function labelOf(key) {
  const [name, , kind] = /** @type {string[]} */ (JSON.parse(key));
  return kind === "spark" ? `${groupLabel(name)} (Spark)` : groupLabel(name);
}

/** @type {import("../../components/table.js").Column<ConsumerGroup>[]} */
const GROUP_COLUMNS = [
  {
    id: "name", title: "Group",
    cell: (row) => html`<a class="strong name" href=${link("groups", row.name, { queue: row.queueName })}>${groupLabel(row.name)}</a>
      ${row.kind === "spark" && html`<span class="muted sub">Spark</span>`}`,
  },
  { id: "state", title: "State", cell: (row) => html`<${State} group=${row} />` },
  { id: "lag", title: "Behind", align: "end", cell: (row) => html`<span title=${count(row.totalLag)}>${short(row.totalLag)}</span>` },
  { id: "time", title: "Oldest waits", align: "end", cell: (row) => (row.totalLag ? duration(row.maxTimeLag) : "–") },
  { id: "partitions", title: "Partitions behind", align: "end", isWide: true, cell: (row) => count(row.partitionsWithLag) },
  { id: "start", title: "Starts at", align: "end", isWide: true, cell: (row) => html`<${Time} at=${row.subscriptionTimestamp} />` },
];

/** @param {{group: ConsumerGroup}} props */
function State({ group }) {
  if (group.isPaused) return html`<${Badge} tone="warning">paused</${Badge}>`;
  if (group.state === "Lagging") return html`<${Badge} tone="danger">lagging</${Badge}>`;
  return html`<${Badge} tone=${group.totalLag ? "neutral" : "good"}>${group.totalLag ? "behind" : "up to date"}</${Badge}>`;
}

/** @param {{of: import("../../lib/poll.js").Resource<ConsumerGroup[]>}} props */
export function GroupLag({ of }) {
  return html`<${DataTable} label="Groups of this queue" columns=${GROUP_COLUMNS} of=${of}
    rowKey=${(/** @type {ConsumerGroup} */ row) => `${row.kind} ${row.name}`}
    empty=${{ title: "No groups yet", text: "A group appears with its first pop." }} />`;
}
