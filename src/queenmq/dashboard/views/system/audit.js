/**
 * The audit log: who did what, when and from where.
 */
import { Badge, Button, Time } from "../../components/basics.js";
import { SelectField, TextField } from "../../components/forms.js";
import { Card } from "../../components/page.js";
import { DataTable } from "../../components/table.js";
import { get } from "../../lib/api.js";
import { useResource } from "../../lib/poll.js";
import { setQuery } from "../../lib/router.js";
import { useState, html } from "../../lib/ui.js";

/** @typedef {import("../../lib/types.js").AuditEntry} AuditEntry */
/** @typedef {import("../../lib/types.js").AuditLog} AuditLog */

const PAGE = 50;
const DAYS = [{ value: "1", label: "a day" }, { value: "7", label: "a week" }, { value: "30", label: "30 days" }, { value: "90", label: "90 days" }];

/** @type {import("../../components/table.js").Column<AuditEntry>[]} */
const COLUMNS = [
  { id: "at", title: "When", cell: (row) => html`<${Time} at=${row.at} />` },
  { id: "who", title: "Who", cell: (row) => html`<span class="strong name">${row.who ?? "anyone"}</span><span class="muted sub">${row.how}${row.address && `, ${row.address}`}</span>` },
  { id: "what", title: "What", cell: (row) => html`<span class="strong">${row.action}</span><span class="muted sub name">${row.target ?? ""}</span>` },
  { id: "details", title: "Details", isWide: true, cell: (row) => (row.details ? html`<code class="query-text">${typeof row.details === "string" ? row.details : JSON.stringify(row.details)}</code>` : "–") },
  { id: "status", title: "Answer", align: "end", cell: (row) => html`<${Badge} tone=${row.status < 400 ? "good" : row.status < 500 ? "warning" : "danger"}>${String(row.status)}</${Badge}>` },
];

/** @param {{query: Record<string, string>}} props */
export function Audit({ query }) {
  const { who = "", action = "" } = query;
  const days = DAYS.some((one) => one.value === query.days) ? query.days ?? "7" : "7";
  const offset = Number(query.offset ?? 0) || 0;
  const [draft, setDraft] = useState({ who, action });
  const list = useResource((signal) => get("/api/v1/audit", {
    who, action, from: new Date(Date.now() - Number(days) * 86_400_000).toISOString(), limit: PAGE, offset,
  }, { signal }), { everyMs: 15_000, inputs: [who, action, days, offset], keep: true });
  const rows = /** @type {AuditLog | null} */ (list.data)?.entries ?? null;
  return html`
    <${Card}><form class="filters" aria-label="Filters" role="search" onSubmit=${(/** @type {Event} */ event) => {
      event.preventDefault();
      setQuery({ ...draft, offset: null });
    }}>
      <${TextField} label="Who" value=${draft.who} onChange=${(/** @type {string} */ value) => setDraft({ ...draft, who: value })} />
      <${TextField} label="Action" value=${draft.action} placeholder="queue or queue.delete" onChange=${(/** @type {string} */ value) => setDraft({ ...draft, action: value })} />
      <${SelectField} label="Back" value=${days} options=${DAYS} onChange=${(/** @type {string} */ value) => setQuery({ days: value, offset: null })} />
      <div class="filters-go"><${Button} type="submit" icon="search">Filter</${Button}></div>
    </form></${Card}>
    <div class="below"><${Card} flush>
      <${DataTable} label="Audit log" columns=${COLUMNS} of=${{ ...list, data: rows }} rowKey=${(/** @type {AuditEntry} */ row) => String(row.id)}
        empty=${{ title: "No administrative action", text: "Nobody has changed queues, groups, tokens or switches in this time." }}
        page=${{ offset, limit: PAGE, shown: rows?.length ?? 0, total: null, hasMore: rows?.length === PAGE, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }) }} />
    </${Card}></div>`;
}
