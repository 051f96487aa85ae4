/**
 * What jobs on Spark do: their runs, streams and how far they are, which days are in a lake, results of analytics, audits.
 */
import { Badge, Time } from "../../components/basics.js";
import { Calendar } from "../../components/calendar.js";
import { Card, Empty, PageHeader, Show } from "../../components/page.js";
import { DataTable } from "../../components/table.js";
import { get } from "../../lib/api.js";
import { bytes, count, duration, plural, short, visible } from "../../lib/format.js";
import { groupLabel } from "../../lib/groups.js";
import { useResource } from "../../lib/poll.js";
import { link } from "../../lib/router.js";
import { html } from "../../lib/ui.js";
import { Command, JobRuns, LastAudit } from "./jobs.js";

/**
 * @typedef {import("../../lib/types.js").ConsumerGroup} ConsumerGroup
 * @typedef {import("../../lib/types.js").StreamQuery} StreamQuery
 * @typedef {import("../../lib/types.js").StreamQueries} StreamQueries
 * @typedef {import("../../lib/types.js").PipelineRun} PipelineRun
 * @typedef {import("../../lib/types.js").PipelineRunList} PipelineRunList
 * @typedef {import("../../lib/types.js").ArchiveCoverage} ArchiveCoverage
 * @typedef {import("../../lib/types.js").ArchivedQueue} ArchivedQueue
 */

const EVERY_MS = 15_000;

export const view = {
  path: "/pipeline",
  title: "Pipeline",
  nav: { label: "Pipeline", icon: "pipeline", key: "s", group: "Look closer" },
  component: Pipeline,
};

/** @param {import("../registry.js").ViewProps} props */
function Pipeline({ query }) {
  const groups = useResource((signal) => get("/api/v1/consumer-groups", {}, { signal }), { everyMs: EVERY_MS });
  const streams = useResource((signal) => get("/api/v1/streams", {}, { signal }), { everyMs: EVERY_MS });
  const runs = useResource((signal) => get("/api/v1/analytics/pipeline", {}, { signal }), { everyMs: EVERY_MS });
  const archive = useResource((signal) => get("/api/v1/analytics/archive", {}, { signal }), { everyMs: EVERY_MS });
  const spark = /** @type {ConsumerGroup[] | null} */ (groups.data)?.filter((one) => one.kind === "spark") ?? null;
  return html`
    <${PageHeader} title="Pipeline" note="Streams and jobs that work on the queues." />
    <${JobRuns} query=${query} />
    <div class="below"><${Card} title="Spark streams" flush>
      <${DataTable} label="Spark streams" columns=${SPARK_COLUMNS} of=${{ ...groups, data: spark }} rowKey=${(/** @type {ConsumerGroup} */ row) => `${row.name} ${row.queueName}`}
        empty=${{ title: "No Spark stream has published its position", text: html`A stream with a <code>consumerGroup</code> stands here after its first batch.<${Command} text="queen pipeline stream stream.toml" />` }} />
    </${Card}></div>
    <div class="below"><${Card} title="Stream queries" flush>
      <${DataTable} label="Stream queries" columns=${QUERY_COLUMNS} of=${{ ...streams, data: /** @type {StreamQueries | null} */ (streams.data)?.streams ?? null }}
        rowKey=${(/** @type {StreamQuery} */ row) => row.id}
        empty=${{ title: "No stream query is registered", text: "A client that runs one, with windows, joins or sums, registers it by name." }} />
    </${Card}></div>
    <${Archive} of=${archive} />
    <div class="below"><${Card} title="Results of analytics" flush>
      <${DataTable} label="Results of analytics" columns=${RUN_COLUMNS} of=${{ ...runs, data: /** @type {PipelineRunList | null} */ (runs.data)?.runs ?? null }}
        rowKey=${(/** @type {PipelineRun} */ row) => row.run}
        empty=${{ title: "Analytics has not run yet", text: html`A run measures latencies, skew and sizes of queues that keep their <code>ackHistory</code>.<${Command} text="queen pipeline analytics --from 24h --bucket 5m" />` }} />
    </${Card}></div>
    <div class="below"><${LastAudit} /></div>`;
}

/** @type {import("../../components/table.js").Column<ConsumerGroup>[]} */
const SPARK_COLUMNS = [
  { id: "name", title: "Group", cell: (row) => html`<a class="strong name" href=${link("groups", row.name, { queue: row.queueName })}>${groupLabel(row.name)}</a>` },
  { id: "queue", title: "Queue", cell: (row) => html`<a class="name" href=${link("queues", row.queueName)}>${visible(row.queueName)}</a>` },
  { id: "streams", title: "Streams", align: "end", isWide: true, cell: (row) => count(row.members) },
  { id: "lag", title: "Lag", align: "end", cell: (row) => short(row.totalLag) },
  { id: "age", title: "Oldest", align: "end", cell: (row) => (row.totalLag ? duration(row.maxTimeLag) : "–") },
  { id: "at", title: "Published", align: "end", isWide: true, cell: (row) => html`<${Time} at=${row.updatedAt} relative />` },
];

/** @type {import("../../components/table.js").Column<StreamQuery>[]} */
const QUERY_COLUMNS = [
  {
    id: "name", title: "Query",
    cell: (row) => html`<span class="strong name">${visible(row.name)}</span>${row.lastError && html`<span class="sub field-error">${row.lastError} <${Time} at=${row.lastErrorAt} relative /></span>`}`,
  },
  { id: "way", title: "From and to", cell: (row) => html`<a class="name" href=${link("queues", row.sourceQueue)}>${visible(row.sourceQueue)}</a>${row.sinkQueue && html` → <a class="name" href=${link("queues", row.sinkQueue)}>${visible(row.sinkQueue)}</a>`}` },
  { id: "lag", title: "Lag", align: "end", cell: (row) => short(row.totalLag) },
  { id: "age", title: "Oldest", align: "end", cell: (row) => (row.totalLag ? duration(row.maxTimeLag) : "–") },
  { id: "state", title: "State", align: "end", isWide: true, cell: (row) => html`${plural(row.stateKeys, "key")}<span class="muted sub">${bytes(row.stateBytes)}</span>` },
  { id: "cycles", title: "Cycles", align: "end", isWide: true, cell: (row) => short(row.cycles) },
  { id: "at", title: "Last cycle", align: "end", cell: (row) => html`<${Time} at=${row.lastCycleAt} relative />` },
];

/** @type {import("../../components/table.js").Column<PipelineRun>[]} */
const RUN_COLUMNS = [
  { id: "at", title: "Finished", cell: (row) => html`<a class="strong" href=${link("pipeline", row.run)}><${Time} at=${row.finishedAt} /></a>` },
  { id: "scope", title: "Of", cell: (row) => html`<span class="name">${scopeText(row.scope)}</span>` },
  { id: "range", title: "Range", isWide: true, cell: (row) => html`<${Time} at=${row.from} /> to <${Time} at=${row.to} />` },
  { id: "bucket", title: "Bucket", align: "end", isWide: true, cell: (row) => duration(row.bucketSeconds) },
  { id: "messages", title: "Messages", align: "end", cell: (row) => short(row.messages) },
];

/** @param {Record<string, unknown>} scope */
export function scopeText(scope) {
  const given = Object.entries(scope).filter(([, value]) => value !== null && value !== "" && value !== undefined);
  return given.length ? given.map(([name, value]) => `${name} ${typeof value === "string" ? value : JSON.stringify(value)}`).join(", ") : "all queues";
}

/** @type {import("../../components/table.js").Column<ArchivedQueue>[]} */
const ARCHIVE_COLUMNS = [
  { id: "queue", title: "Queue", cell: (row) => html`<a class="strong name" href=${link("queues", row.queue)}>${visible(row.queue)}</a>` },
  { id: "lake", title: "Lake", isWide: true, cell: (row) => html`<code title=${row.lake}>${row.location}</code>` },
  { id: "waiting", title: "Not archived since", cell: (row) => (row.waitingSince ? html`<${Time} at=${row.waitingSince} />` : html`<${Badge} tone="good">all archived</${Badge}>`) },
  { id: "at", title: "Verified", align: "end", cell: (row) => html`<${Time} at=${row.updatedAt} relative />` },
];

/** @param {{of: import("../../lib/poll.js").Resource<ArchiveCoverage>}} props */
function Archive({ of }) {
  const days = of.data?.days.map((one) => ({ day: one.day, total: one.pushed, covered: one.archived })) ?? [];
  return html`<div class="pair">
    <${Card} title="Archive by day" note="UTC"><${Show} of=${of} what="the archive">${() => (days.length
      ? html`<${Calendar} days=${days} label="Days of the archive" />`
      : html`<${Empty} title="No history yet" icon="pipeline">Brokers write down what was pushed at the end of each minute.</${Empty}>`)}</${Show}></${Card}>
    <${Card} title="Archive by queue" flush>
      <${DataTable} label="Archive by queue" columns=${ARCHIVE_COLUMNS} of=${{ ...of, data: of.data?.queues ?? null }} rowKey=${(/** @type {ArchivedQueue} */ row) => `${row.lake} ${row.queue}`}
        empty=${{ title: "Nothing is archived yet", text: html`The job puts messages into a lake, each once, and verifies them.<${Command} text="queen pipeline archive --queue orders --lake ./lake" />` }} />
    </${Card}>
  </div>`;
}
