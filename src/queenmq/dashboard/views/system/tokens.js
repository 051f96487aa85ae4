/**
 * API tokens: make one, which is shown once, and revoke it.
 */
import { ActionButton } from "../../components/action.js";
import { Badge, Button, CopyButton, Time } from "../../components/basics.js";
import { Dialog } from "../../components/dialog.js";
import { SelectField, TextField } from "../../components/forms.js";
import { Card } from "../../components/page.js";
import { DataTable } from "../../components/table.js";
import { get, path, send } from "../../lib/api.js";
import { sentence } from "../../lib/errors.js";
import { visible } from "../../lib/format.js";
import { useResource } from "../../lib/poll.js";
import { setQuery } from "../../lib/router.js";
import { may } from "../../lib/store.js";
import { useMemo, useState, html } from "../../lib/ui.js";

/** @typedef {import("../../lib/types.js").Token} Token */
/** @typedef {import("../../lib/types.js").TokenList} TokenList */
/** @typedef {import("../../lib/types.js").NewToken} NewToken */

const PAGE = 50;
/** @type {Record<string, import("../../components/basics.js").Tone>} */
const TONES = { active: "good", expired: "warning", revoked: "neutral" };
const ROLES = ["read-only", "read-write", "admin"].map((name) => ({ value: name, label: name }));

/** @param {{query: Record<string, string>}} props */
export function Tokens({ query }) {
  const offset = Number(query.offset ?? 0) || 0;
  const [isNew, setNew] = useState(false);
  const list = useResource((signal) => get("/api/v1/tokens", { limit: PAGE, offset }, { signal }), { everyMs: 15_000, inputs: [offset], keep: true });
  const columns = useMemo(() => columnsOf(list.reload), []);
  const rows = /** @type {TokenList | null} */ (list.data)?.tokens ?? null;
  return html`<${Card} title="API tokens" flush actions=${html`<${Button} kind="primary" icon="plus" disabled=${!may("admin")} onClick=${() => setNew(true)}>New token</${Button}>`}>
      <${DataTable} label="API tokens" columns=${columns} of=${{ ...list, data: rows }} rowKey=${(/** @type {Token} */ row) => row.id}
        empty=${{ title: "No API tokens", text: "A token lets a program in. JWTs of an identity provider need none." }}
        page=${{ offset, limit: PAGE, shown: rows?.length ?? 0, total: null, hasMore: rows?.length === PAGE, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }) }} />
    </${Card}>
    ${isNew && html`<${NewTokenDialog} onClose=${() => {
      setNew(false);
      list.reload();
    }} />`}`;
}

/** @param {() => void} onDone @returns {import("../../components/table.js").Column<Token>[]} */
const columnsOf = (onDone) => [
  { id: "name", title: "Token", cell: (row) => html`<span class="strong name">${visible(row.name)}</span><span class="muted sub mono">${row.shown}…</span>` },
  { id: "role", title: "May", cell: (row) => html`${row.role}<span class="muted sub name">${[row.verbs?.join(", "), row.queues && `on ${row.queues.join(", ")}`].filter(Boolean).join(" ") || "everything of the role"}</span>` },
  { id: "state", title: "State", cell: (row) => html`<${Badge} tone=${TONES[row.state] ?? "neutral"}>${row.state}</${Badge}>` },
  { id: "used", title: "Used", align: "end", isWide: true, cell: (row) => html`<${Time} at=${row.lastUsedAt} relative />` },
  { id: "ends", title: "Expires", align: "end", isWide: true, cell: (row) => (row.expiresAt ? html`<${Time} at=${row.expiresAt} />` : "never") },
  { id: "made", title: "Made", align: "end", isWide: true, cell: (row) => html`<${Time} at=${row.createdAt} relative /><span class="muted sub">${row.createdBy ?? ""}</span>` },
  { id: "act", title: "Actions", align: "end", cell: (row) => html`<${Revoke} row=${row} onDone=${onDone} />` },
];

/** @param {{row: Token, onDone: () => void}} props */
function Revoke({ row, onDone }) {
  if (row.state !== "active") return null;
  const run = async () => {
    await send("DELETE", path`/api/v1/tokens/${row.id}`);
    onDone();
    return `Revoked ${row.name}.`;
  };
  return html`<${ActionButton} label="Revoke" isQuiet role="admin" name=${`Revoke ${row.name}`} title="Revoke the token" action="Revoke" typed=${row.name} run=${run}>
    <p>Programs that use <strong>${visible(row.name)}</strong> are refused from now on, here at once and by other brokers within a second. So are logins
      that were made with it. This cannot be undone.</p>
  </${ActionButton}>`;
}

/** Names that a person typed between commas. @param {string} text */
const parts = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);

/** @param {{onClose: () => void}} props */
function NewTokenDialog({ onClose }) {
  const [form, setForm] = useState({ name: "", role: "read-only", queues: "", days: "90" });
  const [made, setMade] = useState(/** @type {NewToken | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {string | null} */ (null));
  const change = (/** @type {keyof typeof form} */ name) => (/** @type {string} */ value) => setForm((last) => ({ ...last, [name]: value }));
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      const queues = parts(form.queues);
      setMade(await send("POST", "/api/v1/tokens", {
        name: form.name, role: form.role, queues: queues.length ? queues : null, expiresInDays: form.days ? Number(form.days) : null,
      }));
    } catch (failure) {
      setError(sentence(failure));
    }
    setBusy(false);
  };
  if (made) {
    return html`<${Dialog} title="Copy the token now" onClose=${onClose}>
      <div class="dialog-text">
        <p>It is shown this once. The broker keeps only a hash of it.</p>
        <p class="token-once mono" data-token>${made.token}</p>
      </div>
      <footer class="dialog-footer"><${CopyButton} text=${made.token} what="token" /><${Button} kind="primary" onClick=${onClose}>Done</${Button}></footer>
    </${Dialog}>`;
  }
  return html`<${Dialog} title="New token" onClose=${onClose}>
    <form onSubmit=${submit}>
      <${TextField} label="Name" value=${form.name} onChange=${change("name")} required error=${error} hint="What it is for." />
      <${SelectField} label="Role" value=${form.role} options=${ROLES} onChange=${change("role")} />
      <${TextField} label="Queues" value=${form.queues} onChange=${change("queues")} mono hint="Names or patterns between commas, as billing.*. Empty: all." />
      <${TextField} label="Expires after days" type="number" min="1" value=${form.days} onChange=${change("days")} hint="Empty: never." />
      <footer class="dialog-footer">
        <${Button} onClick=${onClose}>Cancel</${Button}>
        <${Button} kind="primary" type="submit" isBusy=${isBusy} disabled=${form.name === ""}>Make token</${Button}>
      </footer>
    </form>
  </${Dialog}>`;
}
