/**
 * Traces: the names under which consumers left notes, and a way to a message.
 */
import { Button, Time } from "../../components/basics.js";
import { TextField } from "../../components/forms.js";
import { Card, PageHeader } from "../../components/page.js";
import { DataTable } from "../../components/table.js";
import { get } from "../../lib/api.js";
import { count, visible } from "../../lib/format.js";
import { useResource } from "../../lib/poll.js";
import { go, link, setQuery } from "../../lib/router.js";
import { useState, html } from "../../lib/ui.js";

/** @typedef {import("../../lib/types.js").TraceName} TraceName */
/** @typedef {import("../../lib/types.js").TraceNameList} TraceNameList */

const PAGE = 50;

export const view = {
  path: "/traces",
  title: "Traces",
  nav: { label: "Traces", icon: "traces", key: "t", group: "Look closer" },
  component: Traces,
};

/** @type {import("../../components/table.js").Column<TraceName>[]} */
const COLUMNS = [
  { id: "name", title: "Name", cell: (row) => html`<a class="strong name" href=${link("traces", "name", row.trace_name)}>${visible(row.trace_name)}</a>` },
  { id: "messages", title: "Messages", align: "end", cell: (row) => count(row.message_count) },
  { id: "traces", title: "Notes", align: "end", cell: (row) => count(row.trace_count) },
  { id: "seen", title: "Last", align: "end", cell: (row) => html`<${Time} at=${row.last_seen} relative />` },
];

/** @param {import("../registry.js").ViewProps} props */
function Traces({ query }) {
  const offset = Number(query.offset ?? 0) || 0;
  const names = useResource((signal) => get("/api/v1/traces/names", { limit: PAGE, offset }, { signal }), {
    everyMs: 10_000, inputs: [offset], keep: true,
  });
  const found = /** @type {TraceNameList | null} */ (names.data);
  return html`
    <${PageHeader} title="Traces" note="Notes that consumers left on messages, across queues." />
    <${Finder} />
    <${Card} title="Names" flush>
      <${DataTable} label="Names of traces" columns=${COLUMNS} of=${{ ...names, data: found?.trace_names ?? null }} rowKey=${(/** @type {TraceName} */ row) => row.trace_name}
        empty=${{ title: "No traces yet", text: html`A consumer records one with <code>POST /api/v1/traces</code>, or with <code>add_trace</code> of the client.` }}
        page=${{ offset, limit: PAGE, shown: found?.trace_names.length ?? 0, total: found?.total ?? 0, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }) }} />
    </${Card}>`;
}

function Finder() {
  const [name, setName] = useState("");
  const [message, setMessage] = useState({ partition: "", transaction: "" });
  return html`<div class="columns finder">
    <${Card}><form class="filters" aria-label="Find a name" role="search" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      go(link("traces", "name", name));
    }}>
      <${TextField} label="Name of a trace" value=${name} onChange=${setName} mono required />
      <div class="filters-go"><${Button} type="submit" icon="search" disabled=${!name}>Show</${Button}></div>
    </form></${Card}>
    <${Card}><form class="filters filters-two" aria-label="Find a message" role="search" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      go(link("traces", "message", message.partition, message.transaction));
    }}>
      <${TextField} label="Partition id" value=${message.partition} mono required onChange=${(/** @type {string} */ partition) => setMessage({ ...message, partition })} />
      <${TextField} label="Transaction id" value=${message.transaction} mono required onChange=${(/** @type {string} */ transaction) => setMessage({ ...message, transaction })} />
      <div class="filters-go"><${Button} type="submit" icon="search" disabled=${!message.partition || !message.transaction}>Show</${Button}></div>
    </form></${Card}>
  </div>`;
}
