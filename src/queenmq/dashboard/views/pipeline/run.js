/**
 * One run of analytics: what came and went over time, latencies, skew and sizes, queue by queue.
 */
import { Bars } from "../../components/bars.js";
import { Fact, Time } from "../../components/basics.js";
import { Chart } from "../../components/chart.js";
import { SelectField } from "../../components/forms.js";
import { Card, Empty, PageHeader, Show } from "../../components/page.js";
import { DataTable } from "../../components/table.js";
import { get, path } from "../../lib/api.js";
import { bytes, count, duration, milliseconds, percent, short } from "../../lib/format.js";
import { groupLabel } from "../../lib/groups.js";
import { useResource } from "../../lib/poll.js";
import { setQuery } from "../../lib/router.js";
import { useMemo, html } from "../../lib/ui.js";
import { scopeText } from "./list.js";

/**
 * @typedef {import("../../lib/types.js").PipelineTable} PipelineTable
 * @typedef {Record<string, any>} Row A row of any table of a run, in camel case.
 * @typedef {{run: import("../../lib/types.js").PipelineRun, queues: Row[], groups: Row[]}} Summary
 */

export const view = { path: "/pipeline/:run", title: "Run of analytics", under: "/pipeline", component: Run };

/** @param {string} run @param {string} table @param {string} queue @param {AbortSignal} signal */
const read = async (run, table, queue, signal) =>
  /** @type {PipelineTable} */ (await get(path`/api/v1/analytics/pipeline/${table}`, { run, queue, limit: 10_000 }, { signal }));

/** @param {import("../registry.js").ViewProps} props */
function Run({ params, query }) {
  const run = params.run ?? "";
  const summary = useResource(async (signal) => {
    const [queues, groups] = await Promise.all([read(run, "queues", "", signal), read(run, "groups", "", signal)]);
    return { run: queues.run, queues: queues.rows, groups: groups.rows };
  }, { inputs: [run] });
  return html`
    <${PageHeader} title="Run of analytics" crumbs=${[{ label: "Pipeline", href: "#/pipeline" }]}
      note=${summary.data && html`${scopeText(summary.data.run.scope)}, finished <${Time} at=${summary.data.run.finishedAt} />`} />
    <${Show} of=${summary} what="the run">${(/** @type {Summary} */ data) => html`<${Body} data=${data} query=${query} />`}</${Show}>`;
}

/** @param {{data: Summary, query: Record<string, string>}} props */
function Body({ data: { run, queues, groups }, query }) {
  const names = queues.map((row) => String(row.queue));
  const queue = query.queue && names.includes(query.queue) ? query.queue : names[0] ?? "";
  const row = queues.find((one) => one.queue === queue);
  if (!row) return html`<${Empty} title="The run measured no queue" icon="pipeline" />`;
  const own = groups.filter((one) => one.queue === queue);
  return html`
    <${Card} title="Queue">
      ${names.length > 1 && html`<${SelectField} label="Which" value=${queue} options=${names.map((name) => ({ value: name, label: name }))} onChange=${(/** @type {string} */ name) => setQuery({ queue: name })} />`}
      <dl class="facts">
        <${Fact} label="Name">${queue}</${Fact}>
        <${Fact} label="Pushed">${short(row.pushed)} <span class="muted">${bytes(row.bytes)}</span></${Fact}>
        <${Fact} label="Partitions">${short(row.partitions)}</${Fact}>
        <${Fact} label="Largest by mean">${row.maxByMean === null ? "–" : `${Number(row.maxByMean).toFixed(1)}×`}</${Fact}>
        <${Fact} label="Gini">${row.gini === null ? "–" : Number(row.gini).toFixed(2)} <span class="muted">0 is even</span></${Fact}>
        <${Fact} label="Payload, middle and 99 %">${bytes(row.payloadP50)} <span class="muted">${bytes(row.payloadP99)}</span></${Fact}>
        <${Fact} label="Bucket">${duration(run.bucketSeconds)}</${Fact}>
      </dl>
      ${!row.keepsHistory && html`<p class="muted below">The queue keeps no <code>ackHistory</code>: what was consumed and how long it took is not known.</p>`}
    </${Card}>
    <${Tables} key=${queue} run=${run.run} queue=${queue} groups=${own} />`;
}

/** @param {{run: string, queue: string, groups: Row[]}} props */
function Tables({ run, queue, groups }) {
  const tables = useResource(async (signal) => {
    const names = ["timeline", "hottest", "dead-letters", "payload-sizes", "producers"];
    const found = await Promise.all(names.map((name) => read(run, name, queue, signal)));
    return Object.fromEntries(names.map((name, index) => [name, found[index]?.rows ?? []]));
  }, { inputs: [run, queue] });
  return html`<${Show} of=${tables} what="the tables">${(/** @type {Record<string, Row[]>} */ data) => html`
    <${Charts} rows=${data.timeline ?? []} groups=${groups} />
    <div class="below"><${Card} title="Groups" flush>
      <${DataTable} label="Groups" columns=${GROUP_COLUMNS} of=${{ ...tables, data: groups }} rowKey=${(/** @type {Row} */ row) => row.consumerGroup}
        empty=${{ title: "No group has a cursor on the queue" }} />
    </${Card}></div>
    <div class="pair">
      <${Card} title="Skew: hottest partitions"><${Bars} label="Hottest partitions" rows=${(data.hottest ?? []).map((row) => ({
        name: String(row.partition), value: Number(row.pushed), shown: `${short(Number(row.pushed))} · ${percent(Number(row.share))}`,
      }))} /></${Card}>
      <${Card} title="Payload sizes"><${Bars} label="Payload sizes" rows=${(data["payload-sizes"] ?? []).map((row) => ({
        name: `up to ${bytes(Number(row.upToBytes))}`, value: Number(row.messages), shown: short(Number(row.messages)),
      }))} /></${Card}>
      <${Card} title="Dead letters by error"><${Bars} label="Dead letters by error" empty="None in this range." rows=${(data["dead-letters"] ?? []).map((row) => ({
        name: String(row.error ?? "(no error)"), value: Number(row.letters), shown: short(Number(row.letters)), tone: /** @type {const} */ ("danger"),
      }))} /></${Card}>
      <${Card} title="Producers"><${Bars} label="Producers" rows=${(data.producers ?? []).map((row) => ({
        name: String(row.producer ?? "(all others)"), value: Number(row.pushed), shown: short(Number(row.pushed)),
      }))} /></${Card}>
    </div>`}</${Show}>`;
}

/** @type {import("../../components/table.js").Column<Row>[]} */
const GROUP_COLUMNS = [
  { id: "group", title: "Group", cell: (row) => html`<span class="strong name">${groupLabel(row.consumerGroup)}</span>` },
  { id: "p50", title: "p50", align: "end", cell: (row) => milliseconds(row.latencyP50Ms) },
  { id: "p95", title: "p95", align: "end", cell: (row) => milliseconds(row.latencyP95Ms) },
  { id: "p99", title: "p99", align: "end", cell: (row) => milliseconds(row.latencyP99Ms) },
  { id: "measured", title: "Measured", align: "end", isWide: true, cell: (row) => short(row.measured) },
  { id: "consumed", title: "Consumed", align: "end", isWide: true, cell: (row) => short(row.consumed) },
  { id: "backlog", title: "Backlog", align: "end", cell: (row) => short(row.backlogNow) },
  { id: "retries", title: "Retries", align: "end", isWide: true, cell: (row) => count(row.retries) },
  { id: "dead", title: "Dead letters", align: "end", isWide: true, cell: (row) => count(row.deadLetters) },
];

/** @param {{rows: Row[], groups: Row[]}} props */
function Charts({ rows, groups }) {
  const charts = useMemo(() => chartsOf(rows, groups.map((row) => String(row.consumerGroup))), [rows]);
  return html`<div class="charts">${charts.map((chart) => html`<${Card} key=${chart.title}><${Chart} ...${chart} /></${Card}>`)}</div>`;
}

/** Groups whose percentiles get a chart each; more than this nobody compares. */
const GROUPS_MAX = 3;

/**
 * @param {Row[]} rows Of the timeline: without a group what was pushed, with one the rest.
 * @param {string[]} groups
 */
export function chartsOf(rows, groups) {
  const buckets = [...new Set(rows.map((row) => String(row.bucketAt)))].sort();
  const times = buckets.map((bucket) => Date.parse(bucket) / 1000);
  /** @param {string | null} group @param {string} field */
  const values = (group, field) => {
    const found = new Map(rows.filter((row) => (row.consumerGroup ?? null) === group).map((row) => [row.bucketAt, row[field]]));
    return buckets.map((bucket) => found.get(bucket) ?? null);
  };
  const shown = groups.slice(0, GROUPS_MAX);
  return [
    {
      title: "Messages per bucket", format: short, times,
      lines: [{ label: "Pushed", values: values(null, "pushed"), color: 1 }, ...shown.map((group, index) => ({ label: `Consumed by ${groupLabel(group)}`, values: values(group, "consumed"), color: index + 2 }))],
    },
    { title: "Backlog", format: short, times, lines: shown.map((group, index) => ({ label: groupLabel(group), values: values(group, "backlog"), color: index + 2 })) },
    ...shown.map((group) => ({
      title: `From push to ack, ${groupLabel(group)}`, format: milliseconds, times,
      lines: [
        { label: "p50", values: values(group, "latencyP50Ms"), color: 2 }, { label: "p95", values: values(group, "latencyP95Ms"), color: 4 },
        { label: "p99", values: values(group, "latencyP99Ms"), color: 5 },
      ],
    })),
  ];
}
