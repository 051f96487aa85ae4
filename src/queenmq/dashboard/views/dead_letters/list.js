/**
 * Dead letters: by error first, then each, with filters in the URL and what can be done with all that match.
 */
import { refusal } from "../../components/action.js";
import { Badge, Button, Time } from "../../components/basics.js";
import { TextField } from "../../components/forms.js";
import { Card, PageHeader } from "../../components/page.js";
import { DataTable } from "../../components/table.js";
import { Tabs } from "../../components/tabs.js";
import { get } from "../../lib/api.js";
import { count, plural, short, visible } from "../../lib/format.js";
import { groupLabel } from "../../lib/groups.js";
import { useResource } from "../../lib/poll.js";
import { link, setQuery } from "../../lib/router.js";
import { may } from "../../lib/store.js";
import { useEffect, useState, html } from "../../lib/ui.js";
import { BulkDialog } from "./bulk.js";

/**
 * @typedef {import("../../lib/types.js").DeadLetterError} DeadLetterError
 * @typedef {import("../../lib/types.js").DeadLetterErrors} DeadLetterErrors
 * @typedef {import("../../lib/types.js").DeadLetterList} DeadLetterList
 * @typedef {import("../../lib/types.js").StoredDeadLetter} Letter
 * @typedef {{queue: string, consumerGroup: string, partition: string, error: string}} Filter What the list, the retry and the purge all take.
 */

const PAGE = 50;
/** The list is the tab of anyone who has filtered, errors that of anyone who just came. */
const TABS = { errors: "By error", letters: "Letters" };

export const view = {
  path: "/dead-letters",
  title: "Dead letters",
  nav: { label: "Dead letters", icon: "dead", key: "d", group: "Steer" },
  component: DeadLetters,
};

/** @param {Record<string, string>} query @returns {Filter} */
export function filterOf(query) {
  return { queue: query.queue ?? "", consumerGroup: query.consumerGroup ?? "", partition: query.partition ?? "", error: query.error ?? "" };
}

/** @param {import("../registry.js").ViewProps} props */
function DeadLetters({ query }) {
  const filter = filterOf(query);
  const tab = query.tab === "letters" ? "letters" : "errors";
  const offset = Number(query.offset ?? 0) || 0;
  const errors = useResource((signal) => get("/api/v1/dlq/errors", { queue: filter.queue, consumerGroup: filter.consumerGroup }, { signal }), {
    everyMs: 10_000, inputs: [filter.queue, filter.consumerGroup], keep: true,
  });
  const letters = useResource((signal) => get("/api/v1/dlq", { ...filter, limit: PAGE, offset }, { signal }), {
    everyMs: 10_000, inputs: [...Object.values(filter), offset], keep: true,
  });
  const total = /** @type {DeadLetterList | null} */ (letters.data)?.total ?? null;
  const reload = () => {
    errors.reload();
    letters.reload();
  };
  const found = /** @type {DeadLetterErrors | null} */ (errors.data);
  return html`
    <${PageHeader} title="Dead letters" note="Messages that failed for good, and why.">
      <${Bulk} filter=${filter} total=${total} onDone=${reload} />
    </${PageHeader}>
    <${Filters} filter=${filter} />
    <${Tabs} label="Views of the dead letters" active=${tab} tabs=${[
      { id: "errors", label: TABS.errors, href: link("dead-letters", { ...filter }), count: found ? count(found.errors.length) : undefined },
      { id: "letters", label: TABS.letters, href: link("dead-letters", { ...filter, tab: "letters" }), count: total === null ? undefined : count(total) },
    ]} />
    ${tab === "errors"
      ? html`<${Card} flush>
          <${DataTable} label="Dead letters by error" columns=${ERROR_COLUMNS} of=${{ ...errors, data: found && found.errors.filter((one) => one.error.startsWith(filter.error)) }}
            rowKey=${(/** @type {DeadLetterError} */ row) => JSON.stringify([row.queue, row.consumerGroup, row.error])} empty=${NONE} />
          ${found?.isCut && html`<p class="stale">There are more: the newest 100,000 dead letters were counted.</p>`}
        </${Card}>`
      : html`<${Card} flush>
          <${DataTable} label="Dead letters" columns=${LETTER_COLUMNS} of=${{ ...letters, data: /** @type {DeadLetterList | null} */ (letters.data)?.messages ?? null }}
            rowKey=${(/** @type {Letter} */ row) => row.id} empty=${NONE}
            page=${{ offset, limit: PAGE, shown: /** @type {DeadLetterList | null} */ (letters.data)?.messages.length ?? 0, total: total ?? 0, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }) }} />
        </${Card}>`}`;
}

const NONE = { title: "No dead letters", text: "Nothing that matches has failed for good." };

/** @type {import("../../components/table.js").Column<DeadLetterError>[]} */
const ERROR_COLUMNS = [
  {
    id: "error", title: "Error",
    cell: (row) => html`<a class="strong name" href=${link("dead-letters", { queue: row.queue, consumerGroup: row.consumerGroup, error: row.error, tab: "letters" })}>
      ${visible(row.error) || "(no error was given)"}</a>`,
  },
  { id: "count", title: "Letters", align: "end", cell: (row) => html`<strong title=${count(row.count)}>${short(row.count)}</strong>` },
  { id: "queue", title: "Queue", cell: (row) => html`<a class="name" href=${link("queues", row.queue)}>${visible(row.queue)}</a><span class="muted sub">${groupLabel(row.consumerGroup)}</span>` },
  { id: "first", title: "First", align: "end", isWide: true, cell: (row) => html`<${Time} at=${row.firstFailedAt} relative />` },
  { id: "last", title: "Last", align: "end", cell: (row) => html`<${Time} at=${row.lastFailedAt} relative />` },
];

/** @type {import("../../components/table.js").Column<Letter>[]} */
const LETTER_COLUMNS = [
  {
    id: "message", title: "Message",
    cell: (row) => html`<a class="strong name mono" href=${link("dead-letters", row.partitionId, row.transactionId)}>${visible(row.transactionId)}</a>
      <span class="muted sub name">${visible(row.errorMessage) || "(no error was given)"}</span>`,
  },
  { id: "queue", title: "Queue", isWide: true, cell: (row) => html`<a class="name" href=${link("queues", row.queue)}>${visible(row.queue)}</a><span class="muted sub">${visible(row.partition)}</span>` },
  { id: "group", title: "Group", isWide: true, cell: (row) => groupLabel(row.consumerGroup) },
  { id: "attempts", title: "Retries", align: "end", cell: (row) => html`<${Badge}>${count(row.retryCount)}</${Badge}>` },
  { id: "failed", title: "Failed", align: "end", cell: (row) => html`<${Time} at=${row.failedAt} relative />` },
];

/** @param {{filter: Filter}} props */
function Filters({ filter }) {
  const [draft, setDraft] = useState(filter);
  const text = JSON.stringify(filter);
  useEffect(() => setDraft(filter), [text]);
  const isFiltered = Object.values(filter).some(Boolean);
  /** @param {Event} event */
  const apply = (event) => {
    event.preventDefault();
    setQuery({ ...draft, offset: null });
  };
  const field = (/** @type {string} */ label, /** @type {keyof Filter} */ name) => html`<${TextField} label=${label} value=${draft[name]} mono
    onChange=${(/** @type {string} */ value) => setDraft({ ...draft, [name]: value })} />`;
  return html`<${Card}><form class="filters" onSubmit=${apply} aria-label="Filters" role="search">
    ${field("Queue", "queue")}${field("Group", "consumerGroup")}${field("Partition", "partition")}${field("Error begins with", "error")}
    <div class="filters-go">
      <${Button} kind="primary" type="submit" icon="search">Search</${Button}>
      <${Button} kind="quiet" disabled=${!isFiltered}
        onClick=${() => setQuery({ queue: null, consumerGroup: null, partition: null, error: null, offset: null })}>Clear</${Button}>
    </div>
  </form></${Card}>`;
}

/** @param {{filter: Filter, total: number | null, onDone: () => void}} props */
function Bulk({ filter, total, onDone }) {
  const [kind, setKind] = useState(/** @type {"retry" | "purge" | null} */ (null));
  // The API wants to be told at least one of these, so that no slip empties everything.
  const isNarrow = Boolean(filter.queue || filter.consumerGroup);
  const why = (/** @type {"read-write" | "admin"} */ role) => refusal(role) ?? (isNarrow ? undefined : "Filter by queue or group first");
  const what = total === null ? "all that match" : plural(total, "letter");
  return html`
    <${Button} icon="refresh" disabled=${!isNarrow || !total || !may("read-write")} title=${why("read-write")} onClick=${() => setKind("retry")}>
      Retry ${isNarrow ? what : "all"}</${Button}>
    <${Button} icon="trash" disabled=${!isNarrow || !total || !may("admin")} title=${why("admin")} onClick=${() => setKind("purge")}>
      Purge ${isNarrow ? what : "all"}</${Button}>
    ${kind && html`<${BulkDialog} kind=${kind} filter=${filter} onClose=${() => setKind(null)} onDone=${onDone} />`}`;
}
