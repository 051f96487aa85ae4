/**
 * Runs of jobs on Spark and on lakes: how each ended, its figures, and what the last audit found.
 */
import { Badge, CopyButton, Time } from "../../components/basics.js";
import { Card, Empty, Show } from "../../components/page.js";
import { DataTable } from "../../components/table.js";
import { get, path } from "../../lib/api.js";
import { count, duration, plural, short, visible } from "../../lib/format.js";
import { useResource } from "../../lib/poll.js";
import { link, setQuery } from "../../lib/router.js";
import { html } from "../../lib/ui.js";

/**
 * @typedef {import("../../lib/types.js").JobRun} JobRun
 * @typedef {import("../../lib/types.js").JobRunList} JobRunList
 * @typedef {import("../../lib/types.js").JobRunDetail} JobRunDetail
 * @typedef {import("../../lib/types.js").JobTable} JobTable
 */

const EVERY_MS = 15_000;
const PAGE = 20;
const JOBS = ["archive", "replay", "load", "analytics", "audit", "stream", "lake verify", "lake optimize", "lake vacuum"];
/** Figures of one line; the page of the run has all. */
const FIGURES = 3;

/** How to start something, to copy. @param {{text: string}} props */
export const Command = ({ text }) => html`<span class="command"><code>${text}</code><${CopyButton} text=${text} what="command" /></span>`;

/** @type {Record<string, {tone: import("../../components/basics.js").Tone, word: string, title: string}>} */
const OUTCOMES = {
  running: { tone: "accent", word: "running", title: "It has shown a sign of life in the last five minutes" },
  done: { tone: "good", word: "done", title: "The work is done" },
  found: { tone: "warning", word: "found something", title: "The work is done, and something is wrong" },
  failed: { tone: "danger", word: "failed", title: "The work is not done" },
  lost: { tone: "danger", word: "lost", title: "No sign of life for five minutes: the job was killed. Run it again" },
};

/** @param {{outcome: string}} props */
export function Outcome({ outcome }) {
  const { tone, word, title } = OUTCOMES[outcome] ?? { tone: /** @type {const} */ ("neutral"), word: outcome, title: "" };
  return html`<${Badge} tone=${tone} title=${title}>${word}</${Badge}>`;
}

/** How long a run took, or has taken so far. @param {{run: JobRun}} props */
export function Took({ run }) {
  if (run.outcome === "lost") return html`<span class="muted">–</span>`;
  const end = run.finishedAt ? Date.parse(run.finishedAt) : Date.now();
  return html`${duration(Math.max(0, end - Date.parse(run.startedAt)) / 1000)}`;
}

/** The largest figures of a run in a line. @param {Record<string, unknown>} figures */
export function figuresText(figures) {
  const found = Object.entries(figures).filter(([, value]) => typeof value === "number" && value > 0).slice(0, FIGURES);
  return found.map(([name, value]) => `${name} ${short(/** @type {number} */ (value))}`).join(" · ");
}

/** @param {Record<string, unknown>} options */
const optionsText = (options) => Object.entries(options).map(([name, value]) => `${name} ${value}`).join(", ") || "all queues";

/** @type {import("../../components/table.js").Column<JobRun>[]} */
const COLUMNS = [
  { id: "job", title: "Job", cell: (row) => html`<a class="strong" href=${link("pipeline", "runs", row.run)}>${row.job}</a><span class="muted sub"><${Time} at=${row.startedAt} relative /></span>` },
  { id: "outcome", title: "Outcome", cell: (row) => html`<${Outcome} outcome=${row.outcome} />${row.error && html`<span class="sub field-error two-lines">${visible(row.error)}</span>`}` },
  { id: "of", title: "Of", isWide: true, cell: (row) => html`<span class="name two-lines">${optionsText(row.options)}</span>` },
  { id: "figures", title: "Figures", isWide: true, cell: (row) => html`<span class="two-lines">${figuresText(row.figures) || "–"}</span>` },
  { id: "took", title: "Took", align: "end", cell: (row) => html`<${Took} run=${row} />` },
];

/** @param {{query: Record<string, string>}} props */
export function JobRuns({ query }) {
  const job = JOBS.includes(query.job ?? "") ? query.job : "";
  const offset = Number(query.offset ?? 0) || 0;
  /** @type {(signal: AbortSignal) => Promise<JobRunList>} */
  const load = (signal) => get("/api/v1/analytics/runs", { job, limit: PAGE, offset }, { signal });
  const runs = useResource(load, { everyMs: EVERY_MS, inputs: [job, offset], keep: true });
  const shown = runs.data?.runs.length ?? 0;
  return html`<${Card} title="Runs of jobs" flush
    actions=${html`<div class="segments" role="group" aria-label="Job">${["", ...JOBS].map((one) => html`<button key=${one} type="button"
      aria-pressed=${one === job} onClick=${() => setQuery({ job: one || null, offset: null })}>${one || "all"}</button>`)}</div>`}>
    <${DataTable} label="Runs of jobs" columns=${COLUMNS} of=${{ ...runs, data: runs.data?.runs ?? null }} rowKey=${(/** @type {JobRun} */ row) => row.run}
      empty=${{ title: job ? `No run of ${job} yet` : "No job has run yet", text: html`Each job lists its run here, with what it did and how it ended.<${Command} text=${COMMANDS[job || "archive"]} />` }}
      page=${{ offset, limit: PAGE, shown, total: null, hasMore: shown === PAGE, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }) }} />
  </${Card}>`;
}

/** @type {Record<string, string>} */
const COMMANDS = {
  archive: "queen pipeline archive --queue orders --lake ./lake",
  replay: "queen pipeline replay --lake ./lake --target-queue orders-again",
  load: "queen pipeline load orders.json --queue orders",
  analytics: "queen pipeline analytics --from 24h --bucket 5m",
  audit: "queen pipeline audit --lake ./lake",
  stream: "queen pipeline stream stream.toml",
  "lake verify": "queen pipeline lake verify --lake ./lake",
  "lake optimize": "queen pipeline lake optimize --lake ./lake",
  "lake vacuum": "queen pipeline lake vacuum --lake ./lake --hours 168",
};

/** The last audit: which checks it made and what it found. */
export function LastAudit() {
  /** @type {(signal: AbortSignal) => Promise<{run: JobRunDetail | null}>} */
  const load = async (signal) => {
    const { runs } = /** @type {JobRunList} */ (await get("/api/v1/analytics/runs", { job: "audit", limit: 1 }, { signal }));
    return { run: runs[0] ? await get(path`/api/v1/analytics/runs/${runs[0].run}`, {}, { signal }) : null };
  };
  const audit = useResource(load, { everyMs: EVERY_MS });
  return html`<${Card} title="Last audit" flush note=${audit.data?.run && html`<a href=${link("pipeline", "runs", audit.data.run.run)}><${Time} at=${audit.data.run.startedAt} relative /></a>`}>
    <${Show} of=${audit} what="the last audit">${(/** @type {{run: JobRunDetail | null}} */ { run }) => (run
      ? html`<${Audit} run=${run} />`
      : html`<${Empty} title="No audit has run yet" icon="pipeline">An audit checks every promise against the live tables and a lake.<${Command} text=${COMMANDS.audit} /></${Empty}>`)}</${Show}>
  </${Card}>`;
}

/** @param {{run: JobRunDetail}} props */
function Audit({ run }) {
  const found = run.tables["first findings"];
  return html`<div class="card-line"><${Outcome} outcome=${run.outcome} /> ${run.error ?? (found?.total ? plural(found.total, "finding") : run.finishedAt ? "Every promise that was checked holds." : "")}</div>
    ${found && found.rows.length > 0 && html`<${Rows} name="First findings" table=${found} />`}
    ${run.tables.checks && html`<${Rows} name="Checks" table=${run.tables.checks} />`}`;
}

/**
 * A table of a run, whatever its columns are.
 * @param {{name: string, table: JobTable}} props
 */
export function Rows({ name, table }) {
  const columns = table.columns.map((title, index) => ({
    id: title, title: labelOf(title), align: isNumeric(table.rows.map((row) => row[index])) ? /** @type {const} */ ("end") : undefined,
    cell: (/** @type {unknown[]} */ row) => html`<${Value} value=${row[index]} />`,
  }));
  const keyed = new Map(table.rows.map((row, index) => [row, String(index)]));
  return html`<${DataTable} label=${name} columns=${columns} of=${{ data: table.rows, error: null, isLoading: false, at: 0, reload: () => {} }}
      rowKey=${(/** @type {unknown[]} */ row) => keyed.get(row) ?? ""} />
    ${table.total > table.rows.length && html`<p class="card-line muted">${count(table.rows.length)} of ${count(table.total)} are kept here. The job printed all of them.</p>`}`;
}

/** Whether a column holds numbers. @param {unknown[]} values */
const isNumeric = (values) => values.some((value) => typeof value === "number") && values.every((value) => value === null || typeof value === "number");

/** The name of a figure, an option or a column for people: "Queue pattern". @param {string} name */
export function labelOf(name) {
  const words = name.replaceAll("_", " ").replace(/([a-z])([A-Z])/g, (_, end, start) => `${end} ${start.toLowerCase()}`);
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** A value of a figure or a cell. @param {{value: unknown}} props */
export function Value({ value }) {
  if (value === null || value === undefined || value === "") return html`<span class="muted">–</span>`;
  if (typeof value === "number") return html`${Number.isInteger(value) ? count(value) : value.toLocaleString("en", { maximumFractionDigits: 3 })}`;
  return html`<span class="name">${typeof value === "boolean" ? (value ? "yes" : "no") : String(value)}</span>`;
}
