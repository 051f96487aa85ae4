/**
 * A trace as a picture: by name, or by message with all that share a name with it.
 */
import { CopyButton, Time } from "../../components/basics.js";
import { Card, Empty, PageHeader, Show } from "../../components/page.js";
import { Payload } from "../../components/payload.js";
import { DataTable } from "../../components/table.js";
import { Timeline } from "../../components/timeline.js";
import { later, plural, visible } from "../../lib/format.js";
import { useResource } from "../../lib/poll.js";
import { link } from "../../lib/router.js";
import { storyOfMessage, storyOfName } from "../../lib/story.js";
import { html } from "../../lib/ui.js";

/** @typedef {import("../../lib/story.js").Story} Story */
/** @typedef {import("../../lib/story.js").Lane} Lane */
/** @typedef {import("../../lib/story.js").Step & {lane: Lane, from: number}} Row `from`: when the story begins. */

const CRUMBS = [{ label: "Traces", href: "#/traces" }];
const EVERY_MS = 10_000;

export const byName = { path: "/traces/name/:name", title: "Trace", under: "/traces", component: ByName };
export const byMessage = { path: "/traces/message/:partition/:transaction", title: "Trace of a message", under: "/traces", component: ByMessage };

/** @param {import("../registry.js").ViewProps} props */
function ByName({ params }) {
  const name = params.name ?? "";
  const story = useResource((signal) => storyOfName(name, signal), { everyMs: EVERY_MS, inputs: [name] });
  return html`<${PageHeader} title=${name} crumbs=${CRUMBS} note=${story.data && plural(story.data.lanes.length, "message")}>
    <${CopyButton} text=${name} what="name" /></${PageHeader}><${Body} of=${story} />`;
}

/** @param {import("../registry.js").ViewProps} props */
function ByMessage({ params }) {
  const partition = params.partition ?? "";
  const transaction = params.transaction ?? "";
  const story = useResource((signal) => storyOfMessage(partition, transaction, signal), { everyMs: EVERY_MS, inputs: [partition, transaction] });
  const names = story.data?.names ?? [];
  const note = names.length > 0 && html`Named ${names.map((name, index) => html`${index > 0 && ", "}<a key=${name} href=${link("traces", "name", name)}>${visible(name)}</a>`)}`;
  const own = story.data?.lanes.find((lane) => lane.transactionId === transaction);
  return html`<${PageHeader} title=${transaction} crumbs=${CRUMBS} note=${note}>
      <${CopyButton} text=${transaction} what="transaction id" />
      <a class="button button-plain" href=${link("messages", partition, transaction)}>Open message</a>
    </${PageHeader}>
    <${Body} of=${story} chosen=${transaction} />
    ${own && own.payload !== null && html`<div class="below"><${Card} title="Payload"><${Payload} value=${own.payload} /></${Card}></div>`}`;
}

/** @type {import("../../components/table.js").Column<Row>[]} */
const COLUMNS = [
  { id: "at", title: "Time", cell: (row) => html`<${Time} at=${new Date(row.at).toISOString()} /><span class="muted sub">${later(row.at, row.from)}</span>` },
  { id: "queue", title: "Queue", cell: (row) => html`<span class="strong name">${visible(row.lane.queue)}</span><span class="muted sub name mono">${visible(row.lane.transactionId)}</span>` },
  { id: "what", title: "What", cell: (row) => html`<span class=${row.kind === "fault" ? "text-danger" : ""}>${row.label}</span>` },
  { id: "data", title: "Data", isWide: true, cell: (row) => (row.detail === null || row.detail === undefined ? html`<span class="muted">–</span>` : html`<code>${JSON.stringify(row.detail).slice(0, 300)}</code>`) },
];

/** @param {{of: import("../../lib/poll.js").Resource<Story>, chosen?: string}} props */
function Body({ of, chosen }) {
  return html`<${Show} of=${of} what="the trace">${(/** @type {Story} */ { lanes, isCut }) => {
    if (lanes.every((lane) => lane.steps.length === 0)) return html`<${Empty} title="Nothing was recorded here" icon="traces">Its messages may be gone, or the name is another.</${Empty}>`;
    const from = Math.min(...lanes.flatMap((lane) => lane.steps.map((step) => step.at)));
    const rows = lanes.flatMap((lane) => lane.steps.map((step) => ({ ...step, lane, from }))).sort((one, other) => one.at - other.at);
    return html`<${Card} title="From push to push"><${Timeline} lanes=${lanes} chosen=${chosen} />
        ${isCut && html`<p class="muted">There is more than is shown here.</p>`}</${Card}>
      <div class="below"><${Card} title="Steps" flush><${DataTable} label="Steps" columns=${COLUMNS} of=${{ ...of, data: rows }}
        rowKey=${(/** @type {Row} */ row) => `${row.lane.transactionId} ${row.at} ${row.label}`} /></${Card}></div>`;
  }}</${Show}>`;
}
