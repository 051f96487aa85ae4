/**
 * Is everything fine? If not, what is wrong now, why, and where to look. Then what flows, over time.
 */
import { PageHeader, Card, ErrorNote, Show } from "../components/page.js";
import { Badge, Button, Fact, Time } from "../components/basics.js";
import { Chart } from "../components/chart.js";
import { RangePicker } from "../components/controls.js";
import { DataTable } from "../components/table.js";
import { Tile, Tiles } from "../components/tiles.js";
import { get } from "../lib/api.js";
import { bytes, count, duration, milliseconds, percent, rate, short } from "../lib/format.js";
import { useResource } from "../lib/poll.js";
import { link } from "../lib/router.js";
import { range, rangeQuery, useValue } from "../lib/store.js";
import { useMemo, useRef, useState, html } from "../lib/ui.js";

/**
 * @typedef {import("../lib/types.js").OverallDiagnosis} OverallDiagnosis
 * @typedef {import("../lib/types.js").Trouble} Trouble
 * @typedef {import("../lib/types.js").Overview} Totals
 * @typedef {import("../lib/types.js").WorkerMetrics} WorkerMetrics
 * @typedef {import("../lib/types.js").OperationStats} OperationStats
 * @typedef {import("../lib/types.js").PostgresStats} PostgresStats
 */

/** Numbers of now, what the history has (a row a minute), and what changes slowly. */
const NOW_MS = 5_000;
const HISTORY_MS = 20_000;
const SLOW_MS = 60_000;
/** What is wrong must not push the numbers off the screen. */
const TROUBLES_SHOWN = 3;

export const view = {
  path: "/",
  title: "Overview",
  nav: { label: "Overview", icon: "overview", key: "o", group: "Watch" },
  component: Overview,
};

function Overview() {
  const chosen = useValue(range);
  const health = useResource((signal) => get("/api/v1/why", {}, { signal }), { everyMs: NOW_MS });
  const totals = useResource((signal) => get("/api/v1/resources/overview", {}, { signal }), { everyMs: NOW_MS });
  const operations = useResource((signal) => get("/api/v1/operations/stats", {}, { signal }), { everyMs: NOW_MS });
  const history = useResource((signal) => get("/api/v1/analytics/worker-metrics", rangeQuery(), { signal }), {
    everyMs: HISTORY_MS, inputs: [chosen], keep: true,
  });
  return html`
    <${PageHeader} title="Overview"><${RangePicker} /></${PageHeader}>
    <${Health} of=${health} />
    <${Now} totals=${totals} operations=${operations} history=${history} />
    <${Show} of=${history} what="the history">${(/** @type {WorkerMetrics} */ data) => html`<${Charts} data=${data} />`}</${Show}>
    <div class="columns">
      <${Brokers} history=${history} />
      <${Database} />
    </div>`;
}

/** @param {{of: import("../lib/poll.js").Resource<OverallDiagnosis>}} props */
function Health({ of }) {
  const [isOpen, setOpen] = useState(false);
  if (of.data === null) {
    return of.error
      ? html`<section class="health health-danger"><${ErrorNote} error=${of.error} /></section>`
      : html`<section class="health"><p class="health-sentence">Looking at everything…</p></section>`;
  }
  const { isWell, isComplete, summary, troubles, timestamp } = of.data;
  const isBad = !isComplete || Boolean(of.error) || troubles.some((one) => one.severity === "error");
  const tone = isBad ? "danger" : isWell ? "good" : "warning";
  const shown = isOpen ? troubles : troubles.slice(0, TROUBLES_SHOWN);
  const heading = of.error ? "The broker does not answer." : isWell ? "Everything flows." : headline(troubles, summary);
  return html`<section class=${`health health-${tone}`} aria-label="Health" role="status">
    <p class="health-sentence"><span class="health-light" aria-hidden="true"></span>${heading}
      <span class="health-time muted">checked <${Time} at=${timestamp} relative /></span>
    </p>
    ${troubles.length > 0 && html`<ul class="troubles">${shown.map((one, index) => html`<${Item} key=${index} trouble=${one} />`)}</ul>`}
    ${troubles.length > TROUBLES_SHOWN && html`<div class="troubles-more">
      <${Button} kind="quiet" icon=${isOpen ? "up" : "down"} aria-expanded=${isOpen} onClick=${() => setOpen(!isOpen)}>
        ${isOpen ? "Show fewer" : `Show ${troubles.length - TROUBLES_SHOWN} more`}
      </${Button}>
    </div>`}
  </section>`;
}

/** @param {Trouble[]} troubles @param {string} summary */
function headline(troubles, summary) {
  if (troubles.length === 0) return summary;
  const errors = troubles.filter((one) => one.severity === "error").length;
  if (errors) return errors === 1 ? "One thing is broken." : `${errors} things are broken.`;
  return troubles.length === 1 ? "One thing needs a look." : `${troubles.length} things need a look.`;
}

/** @param {{trouble: Trouble}} props */
function Item({ trouble }) {
  const { severity, message, action, queue, consumerGroup } = trouble;
  return html`<li class="trouble">
    <${Badge} tone=${severity === "error" ? "danger" : "warning"}>${severity}</${Badge}>
    <div>
      <p class="trouble-message">${message}</p>
      <p class="muted">${action}</p>
    </div>
    ${queue && html`<a class="button button-plain" href=${link("queues", queue, { group: consumerGroup })}>Open queue</a>`}
  </li>`;
}

/**
 * @param {{totals: import("../lib/poll.js").Resource<Totals>, operations: import("../lib/poll.js").Resource<OperationStats>,
 *   history: import("../lib/poll.js").Resource<WorkerMetrics>}} props
 */
function Now({ totals, operations, history }) {
  const isMeasured = useSecondAnswer(totals);
  const series = history.data?.timeSeries ?? [];
  const last = series.at(-1);
  const errors = series.reduce((sum, point) => sum + point.ackFailed + point.dbErrors, 0);
  return html`<${Show} of=${totals} what="totals">${(/** @type {Totals} */ data) => html`<${Tiles}>
    <${Tile} label="In" value=${rate(data.throughput.ingestedPerSecond)} unit="/s" note="messages pushed"
      trend=${series.map((point) => point.pushPerSecond)} />
    <${Tile} label="Out" value=${isMeasured ? rate(data.throughput.processedPerSecond) : "–"} unit=${isMeasured ? "/s" : undefined}
      note=${isMeasured ? "messages consumed" : "being measured"}
      trend=${series.map((point) => point.popPerSecond)} />
    <${Tile} label="Backlog" value=${short(data.messages.pending)} href=${link("queues", { sort: "-pending" })}
      note=${`${short(data.messages.processing)} under lease`} title=${count(data.messages.pending)} />
    <${Tile} label="Oldest waiting" value=${duration(data.lag.time.max)} note="message before its group"
      tone=${data.lag.time.max > 300 ? "warning" : "neutral"} />
    <${Tile} label="Parked consumers" value=${last ? count(last.backoffSize) : "–"} note="pops that wait for news" />
    <${Tile} label="Dead letters" value=${short(data.messages.deadLetter)} tone=${data.messages.deadLetter ? "warning" : "neutral"}
      note=${`${short(data.messages.failed)} wait for a retry`} />
    <${Tile} label="Errors" value=${history.data ? count(errors) : "–"} tone=${errors ? "warning" : "neutral"} note="acks and calls that failed" />
    <${OperationTile} of=${operations} />
  </${Tiles}>`}</${Show}>`;
}

/**
 * Whether a second answer has come since the page was opened or the broker was away. The rate of what was consumed is
 * that since the broker was last asked, by anybody: the first one spans an unknown time, or is 0 after a start.
 * @param {import("../lib/poll.js").Resource<Totals>} totals
 */
function useSecondAnswer({ data, error }) {
  const first = useRef(/** @type {string | null} */ (null));
  if (error) first.current = null;
  else if (data && first.current === null) first.current = data.timestamp;
  return !error && data !== null && data.timestamp !== first.current;
}

/** @param {{of: import("../lib/poll.js").Resource<OperationStats>}} props */
function OperationTile({ of: { data, error } }) {
  if (!data) return html`<${Tile} label="Queued pushes" value="–" note=${error ? "not available" : "loading"} />`;
  const note = data.aside.records ? `${count(data.aside.records)} set aside` : `oldest ${duration(data.oldestAgeSeconds ?? 0)}`;
  const tone = data.systemHealth === "healthy" ? "neutral" : data.systemHealth === "critical" ? "danger" : "warning";
  return html`<${Tile} label="Queued pushes" value=${short(data.depth)} note=${note} tone=${tone} />`;
}

/**
 * What the charts show. Made once per answer, so that a chart is drawn again only when there is something new.
 * @param {WorkerMetrics} data
 */
function chartsOf({ timeRange, timeSeries }) {
  const times = timeSeries.map((point) => Date.parse(point.timestamp) / 1000);
  const span = { from: Date.parse(timeRange.from) / 1000, to: Date.parse(timeRange.to) / 1000 };
  const line = (/** @type {string} */ label, /** @type {keyof import("../lib/types.js").WorkerPoint} */ field, /** @type {number} */ color) => ({
    label, color, values: timeSeries.map((point) => Number(point[field])),
  });
  return [
    {
      title: "Messages per second", format: rate,
      lines: [line("Pushed", "pushPerSecond", 1), line("Delivered", "popPerSecond", 2), { ...line("Acked", "ackPerSecond", 3), isDashed: true }],
    },
    { title: "Time from push to delivery", format: milliseconds, lines: [line("Average", "avgLagMs", 1), line("Longest", "maxLagMs", 4)] },
    {
      title: "Trouble per step", format: short, isWhole: true,
      lines: [line("Failed acks", "ackFailed", 4), line("Dead letters", "dlqCount", 5), line("Database errors", "dbErrors", 6)],
    },
    {
      title: "Consumers and connections", format: short, isWhole: true,
      lines: [line("Parked pops", "backoffSize", 2), line("Database connections", "dbConnections", 1), line("Calls that wait", "maxJobQueueSize", 4)],
    },
  ].map((chart) => ({ ...chart, times, span }));
}

/** @param {{data: WorkerMetrics}} props */
function Charts({ data }) {
  const charts = useMemo(() => chartsOf(data), [data]);
  return html`<div class="charts">
    ${charts.map((chart) => html`<${Card} key=${chart.title}><${Chart} ...${chart} /></${Card}>`)}
  </div>`;
}

/** @typedef {import("../lib/types.js").Worker} Worker */

/** @type {import("../components/table.js").Column<Worker>[]} */
const BROKER_COLUMNS = [
  { id: "host", title: "Broker", cell: (row) => html`<span class="strong">${row.hostname}</span> <span class="muted">${row.pid}</span>` },
  { id: "lag", title: "Loop lag", align: "end", cell: (row) => milliseconds(row.avgEventLoopLagMs) },
  { id: "db", title: "Connections", align: "end", cell: (row) => `${count(row.dbConnections - row.freeSlots)} of ${count(row.dbConnections)} in use` },
  { id: "waiting", title: "Waiting calls", align: "end", isWide: true, cell: (row) => count(row.jobQueueSize) },
  { id: "seen", title: "Seen", align: "end", cell: (row) => html`<${Time} at=${row.lastSeen} relative />` },
];

/** @param {{history: import("../lib/poll.js").Resource<WorkerMetrics>}} props */
function Brokers({ history }) {
  const rows = { ...history, data: history.data?.workers ?? null };
  return html`<${Card} title="Brokers" flush>
    <${DataTable} label="Brokers" columns=${BROKER_COLUMNS} of=${rows} rowKey=${(/** @type {Worker} */ row) => `${row.hostname} ${row.pid}`}
      empty=${{ title: "No broker has written history yet", text: "Each writes a line at the end of a minute." }} />
  </${Card}>`;
}

function Database() {
  const stats = useResource((signal) => get("/api/v1/analytics/postgres-stats", {}, { signal }), { everyMs: SLOW_MS });
  return html`<${Card} title="Database">
    <${Show} of=${stats} what="the database's statistics">${(/** @type {PostgresStats} */ data) => {
      const dead = data.deadTuples.reduce((sum, row) => sum + row.deadRows, 0);
      const live = data.deadTuples.reduce((sum, row) => sum + row.liveRows, 0);
      const holder = data.xminHolders[0];
      return html`<dl class="facts">
        <${Fact} label="Size">${bytes(data.databaseCache.bytes)}</${Fact}>
        <${Fact} label="Cache hits">${data.databaseCache.hitRatio === null ? "–" : percent(data.databaseCache.hitRatio / 100)}</${Fact}>
        <${Fact} label="Dead rows">${short(dead)} <span class="muted">of ${short(dead + live)}</span></${Fact}>
        <${Fact} label="Deadlocks">${count(data.databaseCache.deadlocks)}</${Fact}>
        <${Fact} label="Active queries">${count(data.activeQueries.length)}</${Fact}>
        <${Fact} label="Oldest snapshot">${holder ? html`<span title=${holder.what}>${duration(holder.seconds)}</span>` : "none"}</${Fact}>
      </dl>`;
    }}</${Show}>
  </${Card}>`;
}
