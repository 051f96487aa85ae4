/**
 * One run of a job: what it was asked to do, how it ended, its figures, tables and findings.
 */
import { CopyButton, Fact, Time } from "../../components/basics.js";
import { Card, PageHeader, Show } from "../../components/page.js";
import { get, path } from "../../lib/api.js";
import { count } from "../../lib/format.js";
import { useResource } from "../../lib/poll.js";
import { link } from "../../lib/router.js";
import { html } from "../../lib/ui.js";
import { labelOf, Outcome, Rows, Took, Value } from "./jobs.js";

/** @typedef {import("../../lib/types.js").JobRunDetail} JobRunDetail */

export const view = { path: "/pipeline/runs/:run", title: "Run of a job", under: "/pipeline", component: JobRunView };

/** @param {import("../registry.js").ViewProps} props */
function JobRunView({ params }) {
  const id = params.run ?? "";
  /** @type {(signal: AbortSignal) => Promise<JobRunDetail>} */
  const load = (signal) => get(path`/api/v1/analytics/runs/${id}`, {}, { signal });
  const run = useResource(load, { everyMs: 10_000, inputs: [id] });
  const results = run.data?.job === "analytics" ? run.data.figures.run : undefined;
  return html`
    <${PageHeader} title=${run.data ? `Run of ${run.data.job}` : "Run of a job"} crumbs=${[{ label: "Pipeline", href: "#/pipeline" }]}
      note=${run.data && html`started <${Time} at=${run.data.startedAt} />`}>
      <${CopyButton} text=${id} what="id of the run" />
      ${typeof results === "string" && html`<a class="button button-primary" href=${link("pipeline", results)}>Open results</a>`}
    </${PageHeader}>
    <${Show} of=${run} what="the run">${(/** @type {JobRunDetail} */ data) => html`<${Body} run=${data} />`}</${Show}>`;
}

/** @param {{run: JobRunDetail}} props */
function Body({ run }) {
  const tables = Object.entries(run.tables).filter(([, table]) => table.rows.length > 0);
  return html`<div class="stack">
    <${Card} title="What it did">
      <dl class="facts">
        <${Fact} label="Outcome"><${Outcome} outcome=${run.outcome} /></${Fact}>
        <${Fact} label="Took"><${Took} run=${run} /></${Fact}>
        <${Fact} label="Finished"><${Time} at=${run.finishedAt} /></${Fact}>
        ${Object.entries(run.options).map(([name, value]) => html`<${Fact} key=${name} label=${labelOf(name)}><${Value} value=${value} /></${Fact}>`)}
      </dl>
      ${run.error && html`<p class="note note-danger below"><strong>Error</strong> ${run.error}</p>`}
    </${Card}>
    ${Object.keys(run.figures).length > 0 && html`<${Card} title="Figures"><dl class="facts">
      ${Object.entries(run.figures).map(([name, value]) => html`<${Fact} key=${name} label=${labelOf(name)}><${Value} value=${value} /></${Fact}>`)}
    </dl></${Card}>`}
    ${tables.map(([name, table]) => html`<${Card} key=${name} title=${labelOf(name)} note=${count(table.total)} flush>
      <${Rows} name=${name} table=${table} />
    </${Card}>`)}
  </div>`;
}
