/**
 * The filters of the list of messages, as they stand in the URL.
 */
import { Button } from "../../components/basics.js";
import { SelectField, TextField } from "../../components/forms.js";
import { Card } from "../../components/page.js";
import { useDraft } from "../../lib/draft.js";
import { setQuery } from "../../lib/router.js";
import { html } from "../../lib/ui.js";

/** @typedef {Record<string, string>} Filters */

export const STATUSES = [
  { value: "", label: "any" },
  { value: "pending", label: "pending" },
  { value: "processing", label: "under lease" },
  { value: "completed", label: "consumed" },
  { value: "dead_letter", label: "dead letter" },
];

const SPANS = [
  { value: "15m", label: "last 15 minutes", seconds: 900 },
  { value: "", label: "last hour", seconds: 3_600 },
  { value: "24h", label: "last 24 hours", seconds: 86_400 },
  { value: "7d", label: "last 7 days", seconds: 604_800 },
  { value: "all", label: "any time", seconds: null },
  { value: "span", label: "from … to …", seconds: null },
];

/** Names in the URL. */
const FIELDS = ["queue", "partition", "transactionId", "text", "status", "within", "from", "to"];

/** Before any message. */
const EVER = "1970-01-01T00:00:00Z";

/** A time of a field in the reader's zone as the API's, or undefined. @param {string | undefined} text */
function timeOf(text) {
  const at = new Date(text ?? "");
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString();
}

/**
 * The API's query of these filters.
 * @param {Filters} filters
 * @param {number} nowMs
 */
export function askedOf(filters, nowMs) {
  const { queue, partition, status, transactionId, text, within = "" } = filters;
  const span = SPANS.find((one) => one.value === within) ?? SPANS[1];
  /** @type {{from?: string, to?: string}} */
  let times = {};
  if (within === "span") times = { from: timeOf(filters.from) ?? EVER, to: timeOf(filters.to) };
  else if (within === "all") times = { from: EVER };
  else times = { from: new Date(nowMs - Number(span?.seconds) * 1000).toISOString() };
  return { queue, partition: queue ? partition : undefined, status, transactionId, text, ...times };
}

/** @param {{filters: Filters}} props */
export function FilterForm({ filters }) {
  const given = Object.fromEntries(FIELDS.map((name) => [name, filters[name] ?? ""]));
  const [draft, setDraft] = useDraft(given);
  const field = (/** @type {string} */ name) => ({
    value: draft[name] ?? "", onChange: (/** @type {string} */ value) => setDraft({ ...draft, [name]: value }),
  });
  /** Choices are taken at once, text with Enter or the button. @param {string} name */
  const choice = (name) => ({
    value: draft[name] ?? "", onChange: (/** @type {string} */ value) => setQuery({ ...trimmed({ ...draft, [name]: value }), offset: null }),
  });
  /** @param {Event} event */
  const submit = (event) => {
    event.preventDefault();
    setQuery({ ...trimmed(draft), offset: null });
  };
  const isAny = FIELDS.some((name) => filters[name]);
  return html`<${Card}>
    <form class="filters" role="search" aria-label="Messages" onSubmit=${submit}>
      <${TextField} label="Queue" mono data-search ...${field("queue")} />
      <${TextField} label="Partition" mono disabled=${!draft.queue} placeholder=${draft.queue ? "" : "name a queue first"} ...${field("partition")} />
      <${TextField} label="Transaction id" mono ...${field("transactionId")} />
      <${TextField} label="Text in the payload" ...${field("text")} />
      <${SelectField} label="Status" options=${STATUSES} ...${choice("status")} />
      <${SelectField} label="Pushed" options=${SPANS} ...${choice("within")} />
      ${draft.within === "span" && html`
        <${TextField} label="From" type="datetime-local" step="1" ...${field("from")} />
        <${TextField} label="To" type="datetime-local" step="1" ...${field("to")} />`}
      <div class="filters-go">
        <${Button} kind="primary" icon="search" type="submit">Search</${Button}>
        <${Button} kind="quiet" disabled=${!isAny} onClick=${() => setQuery(Object.fromEntries([...FIELDS, "offset"].map((name) => [name, null])))}>Clear</${Button}>
      </div>
    </form>
  </${Card}>`;
}

/** @param {Filters} draft */
const trimmed = (draft) => Object.fromEntries(FIELDS.map((name) => [name, draft[name]?.trim() || null]));
