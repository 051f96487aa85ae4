/**
 * Brokers: what each worker does over time, slots and batches of pops, what load management decided.
 */
import { Bars } from "../../components/bars.js";
import { Badge, Fact, Time } from "../../components/basics.js";
import { Chart } from "../../components/chart.js";
import { Card, Show } from "../../components/page.js";
import { DataTable } from "../../components/table.js";
import { get } from "../../lib/api.js";
import { bytes, count, duration, milliseconds, percent, rate, short } from "../../lib/format.js";
import { useResource } from "../../lib/poll.js";
import { buckets, byLabel, mean, parseMetrics, total } from "../../lib/prometheus.js";
import { range, rangeQuery, useValue } from "../../lib/store.js";
import { useMemo, html } from "../../lib/ui.js";

/**
 * @typedef {import("../../lib/types.js").Worker} Worker
 * @typedef {import("../../lib/types.js").WorkerMetrics} WorkerMetrics
 * @typedef {import("../../lib/types.js").SystemMetrics} SystemMetrics
 * @typedef {import("../../lib/types.js").Health} Health
 * @typedef {import("../../lib/prometheus.js").Samples} Samples
 */

export function Brokers() {
  const chosen = useValue(range);
  const health = useResource((signal) => get("/health", {}, { signal, statuses: [503] }), { everyMs: 10_000 });
  const metrics = useResource(async (signal) => parseMetrics(await get("/metrics/prometheus", {}, { signal, isText: true })), { everyMs: 10_000 });
  const history = useResource((signal) => get("/api/v1/analytics/worker-metrics", rangeQuery(), { signal }), { everyMs: 30_000, inputs: [chosen], keep: true });
  const gauges = useResource((signal) => get("/api/v1/analytics/system-metrics", rangeQuery(), { signal }), { everyMs: 30_000, inputs: [chosen], keep: true });
  const workers = /** @type {WorkerMetrics | null} */ (history.data)?.workers ?? null;
  return html`
    <${Show} of=${health} what="the broker">${(/** @type {Health} */ data) => html`<${About} data=${data} />`}</${Show}>
    <div class="below"><${Card} title="Workers" flush>
      <${DataTable} label="Workers" columns=${WORKER_COLUMNS} of=${{ ...history, data: workers }} rowKey=${(/** @type {Worker} */ row) => `${row.hostname} ${row.workerId} ${row.pid}`}
        empty=${{ title: "No worker has written history yet", text: "Each writes a line at the end of a minute." }} />
    </${Card}></div>
    <${Show} of=${gauges} what="the history">${(/** @type {SystemMetrics} */ data) => html`<${Charts} data=${data} />`}</${Show}>
    <${Show} of=${metrics} what="the counters">${(/** @type {Samples} */ samples) => html`<${Pops} samples=${samples} />`}</${Show}>`;
}

/** @param {{data: Health}} props */
function About({ data }) {
  const tone = data.status === "healthy" ? "good" : data.status === "degraded" ? "warning" : "danger";
  return html`<${Card} title="The broker that answers">
    <dl class="facts">
      <${Fact} label="State"><${Badge} tone=${tone}>${data.status}</${Badge}></${Fact}>
      <${Fact} label="Version">${data.version}</${Fact}>
      <${Fact} label="Database">${data.database}</${Fact}>
      <${Fact} label="Worker">${count(data.worker_id)}</${Fact}>
      ${Object.entries(data.capabilities).map(([name, one]) => html`<${Fact} key=${name} label=${`${name.charAt(0).toUpperCase()}${name.slice(1)}`}>
        ${one.status}${one.reason && html` <span class="muted">${one.reason}</span>`}</${Fact}>`)}
    </dl>
    ${data.problems.map((text) => html`<p key=${text} class="field-error below">${text}</p>`)}
  </${Card}>`;
}

/** @type {import("../../components/table.js").Column<Worker>[]} */
const WORKER_COLUMNS = [
  { id: "host", title: "Worker", cell: (row) => html`<span class="strong">${row.hostname}</span> <span class="muted">${row.workerId}, process ${row.pid ?? "–"}</span>` },
  { id: "lag", title: "Loop lag", align: "end", cell: (row) => html`${milliseconds(row.avgEventLoopLagMs)}<span class="muted sub">up to ${milliseconds(row.maxEventLoopLagMs)}</span>` },
  { id: "pool", title: "Connections", align: "end", cell: (row) => `${count(row.dbConnections - row.freeSlots)} of ${count(row.dbConnections)} in use` },
  { id: "waiting", title: "Waiting calls", align: "end", isWide: true, cell: (row) => count(row.jobQueueSize) },
  { id: "done", title: "Messages", align: "end", isWide: true, cell: (row) => short(row.messagesProcessed) },
  { id: "seen", title: "Seen", align: "end", cell: (row) => html`<${Time} at=${row.lastSeen} relative />` },
];

/** Workers with a line of their own; the busiest brokers have this many. */
const WORKERS_MAX = 6;

/** @param {{data: SystemMetrics}} props */
function Charts({ data }) {
  const charts = useMemo(() => {
    const replicas = data.replicas.slice(0, WORKERS_MAX);
    const stamps = [...new Set(replicas.flatMap((one) => one.timeSeries.map((point) => point.timestamp)))].sort();
    const times = stamps.map((stamp) => Date.parse(stamp) / 1000);
    const span = { from: Date.parse(data.timeRange.from) / 1000, to: Date.parse(data.timeRange.to) / 1000 };
    /** @param {(metrics: import("../../lib/types.js").WorkerGauges) => number} pick */
    const lines = (pick) => replicas.map((one, index) => {
      const found = new Map(one.timeSeries.map((point) => [point.timestamp, pick(point.metrics)]));
      return { label: `${one.hostname} ${one.workerId}`, values: stamps.map((stamp) => found.get(stamp) ?? null), color: index + 1 };
    });
    return [
      // The gauges are percent of a core times 100.
      { title: "Processor, share of a core", format: percent, lines: lines((one) => (one.cpu.user_us.avg + one.cpu.system_us.avg) / 10_000) },
      { title: "Memory", format: bytes, lines: lines((one) => one.memory.rss_bytes.avg) },
      { title: "Database connections in use", format: rate, lines: lines((one) => one.database.pool_active.avg) },
      { title: "Pops that wait", format: rate, lines: lines((one) => one.registries.poll_intention.avg) },
    ].map((chart) => ({ ...chart, times, span }));
  }, [data]);
  return html`<div class="charts">${charts.map((chart) => html`<${Card} key=${chart.title}><${Chart} ...${chart} /></${Card}>`)}</div>`;
}

/** @param {{samples: Samples}} props */
function Pops({ samples }) {
  const states = [...byLabel(samples, "queen_pop_state_seconds_total", "state")];
  const entries = byLabel(samples, "queen_pop_state_entries_total", "state");
  const slots = [...byLabel(samples, "queen_pop_slot_busy_seconds_total", "slot")];
  const sizes = buckets(samples, "queen_pop_batch_size").filter((one) => one.count > 0);
  const decisions = (samples.get("queen_load_decisions_total") ?? []).filter((one) => one.value > 0);
  return html`<div class="pair">
    <${Card} title="Time per pop state" note="of all workers, since they started">
      <${Bars} label="Time per pop state" rows=${states.map(([name, value]) => ({ name: `${name} (${short(entries.get(name) ?? 0)})`, value, shown: duration(value) }))} empty="No pop yet." />
    </${Card}>
    <${Card} title="Decisions of load management" note=${`pressure ${percent(total(samples, "queen_load_pressure"))}`}>
      <${Bars} label="Decisions of load management" empty="No request yet." rows=${decisions.map((one) => ({
        name: `${one.labels.type?.replace("_", " ")}: ${one.labels.decision}`, value: one.value, shown: short(one.value),
        tone: one.labels.decision === "reject" ? /** @type {const} */ ("danger") : one.labels.decision === "queue" ? /** @type {const} */ ("warning") : undefined,
      }))} />
    </${Card}>
    <${Card} title="Slots for pop calls" note=${`${count(total(samples, "queen_pop_slots"))} may run at once`}>
      <${Bars} label="Busy time of slots" rows=${slots.map(([name, value]) => ({ name: `slot ${name}`, value, shown: duration(value) }))} empty="No call yet." />
    </${Card}>
    <${Card} title="Pops in one call" note=${`${rate(mean(samples, "queen_pop_batch_size"))} on average`}>
      <${Bars} label="Pops in one call" rows=${sizes.map((one) => ({ name: Number.isFinite(one.upTo) ? `up to ${count(one.upTo)}` : "more", value: one.count, shown: short(one.count) }))} empty="No call yet." />
    </${Card}>
  </div>`;
}
