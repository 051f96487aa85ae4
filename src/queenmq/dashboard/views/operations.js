/**
 * Accepted pushes that are not stored yet, those that were set aside, and the switches of maintenance.
 */
import { ActionButton } from "../components/action.js";
import { Badge, Time } from "../components/basics.js";
import { ConfirmDialog } from "../components/dialog.js";
import { Toggle } from "../components/forms.js";
import { Card, PageHeader, Show } from "../components/page.js";
import { DataTable } from "../components/table.js";
import { Tile, Tiles } from "../components/tiles.js";
import { toast } from "../components/toasts.js";
import { get, path, send } from "../lib/api.js";
import { bytes, count, duration, percent, plural, rate, short, visible } from "../lib/format.js";
import { useResource } from "../lib/poll.js";
import { link, setQuery } from "../lib/router.js";
import { may } from "../lib/store.js";
import { useMemo, useState, html } from "../lib/ui.js";

/**
 * @typedef {import("../lib/types.js").Operation} Operation
 * @typedef {import("../lib/types.js").OperationList} OperationList
 * @typedef {import("../lib/types.js").OperationStats} OperationStats
 * @typedef {import("../lib/types.js").OperationsRetried} OperationsRetried
 * @typedef {import("../lib/types.js").AsideList} AsideList
 * @typedef {import("../lib/types.js").AsideRecord} AsideRecord
 * @typedef {import("../lib/types.js").BrokerMemory} BrokerMemory
 * @typedef {import("../lib/types.js").Buffers} Buffers
 */

const PAGE = 50;
const STATUSES = ["", "pending", "processing", "failed", "completed", "discarded"];
const OPEN = ["pending", "processing", "failed"];
/** @type {Record<string, import("../components/basics.js").Tone>} */
const TONES = { failed: "danger", pending: "warning", processing: "accent", completed: "good" };

export const view = {
  path: "/operations",
  title: "Operations",
  nav: { label: "Operations", icon: "operations", key: "p", group: "Steer" },
  component: Operations,
};

/** @param {import("./registry.js").ViewProps} props */
function Operations({ query }) {
  const status = STATUSES.includes(query.status ?? "") ? query.status ?? "" : "";
  const offset = Number(query.offset ?? 0) || 0;
  const stats = useResource((signal) => get("/api/v1/operations/stats", {}, { signal }), { everyMs: 5_000 });
  const modes = useResource((signal) => get("/api/v1/system/shared-state", {}, { signal }), { everyMs: 5_000 });
  const spool = useResource((signal) => get("/api/v1/status/buffers", {}, { signal }), { everyMs: 5_000 });
  const list = useResource((signal) => get("/api/v1/operations", { status, limit: PAGE, offset }, { signal }), {
    everyMs: 5_000, inputs: [status, offset], keep: true,
  });
  const aside = useResource((signal) => get("/api/v1/operations/aside", {}, { signal }), { everyMs: 10_000 });
  const reload = () => [stats, modes, spool, list, aside].forEach((one) => one.reload());
  const columns = useMemo(() => operationColumns(() => [stats, list].forEach((one) => one.reload())), []);
  const found = /** @type {OperationList | null} */ (list.data);
  return html`
    <${PageHeader} title="Operations" note="Pushes that were accepted and wait to be stored.">
      <${RetryAll} stats=${stats.data} onDone=${reload} />
    </${PageHeader}>
    <${Numbers} stats=${stats} spool=${spool} />
    <div class="below"><${Switches} of=${modes} onDone=${reload} /></div>
    <div class="below"><${Card} title="Queued pushes" flush actions=${html`<${StatusPicker} status=${status} />`}>
      <${DataTable} label="Queued pushes" columns=${columns} of=${{ ...list, data: found?.operations ?? null }} rowKey=${(/** @type {Operation} */ row) => row.id}
        empty=${{ title: "Nothing is queued", text: "Pushes are stored at once. They wait here only under load, or behind others of their partition." }}
        page=${{ offset, limit: PAGE, shown: found?.operations.length ?? 0, total: found?.total ?? 0, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }) }} />
    </${Card}></div>
    <div class="below"><${Card} title="Set aside on this broker's disk" flush>
      <${DataTable} label="Pushes that were set aside" columns=${ASIDE_COLUMNS} of=${{ ...aside, data: /** @type {AsideList | null} */ (aside.data)?.records ?? null }}
        rowKey=${(/** @type {AsideRecord} */ row) => row.id}
        empty=${{ title: "Nothing was set aside", text: "A push goes here when the database refuses it after it was accepted." }} />
    </${Card}></div>`;
}

/** @param {{stats: import("../lib/poll.js").Resource<OperationStats>, spool: import("../lib/poll.js").Resource<Buffers>}} props */
function Numbers({ stats, spool }) {
  return html`<${Show} of=${stats} what="the numbers">${(/** @type {OperationStats} */ data) => {
    const failed = data.byStatus.failed?.operations ?? 0;
    return html`<${Tiles}>
      <${Tile} label="Queued pushes" value=${short(data.depth)} note=${data.depth ? `oldest ${duration(data.oldestAgeSeconds)}` : "nothing waits"} />
      <${Tile} label="Failed" value=${short(failed)} tone=${failed ? "danger" : "neutral"} note="wait for a person" href=${link("operations", { status: "failed" })} />
      <${Tile} label="Set aside" value=${short(data.aside.records)} tone=${data.aside.records ? "danger" : "neutral"} note=${bytes(data.aside.bytes)} />
      <${Tile} label="On this broker's disk" value=${short(spool.data?.pending)} note="push requests in the spool" />
      <${Tile} label="Drained" value=${rate(data.drainRate)} unit=${data.drainRate === null ? undefined : "/s"} note="operations" />
      <${Tile} label="Time to store" value=${duration(data.latency_seconds)} note="from accepting to storing" />
      <${Tile} label="Pressure" value=${percent(data.pressure)} tone=${data.pressure >= 1 ? "danger" : data.pressure >= 0.7 ? "warning" : "neutral"} note="100 % is all that a broker should carry" />
      <${Tile} label="State" value=${data.systemHealth} tone=${data.systemHealth === "healthy" ? "neutral" : data.systemHealth === "critical" ? "danger" : "warning"} />
    </${Tiles}>`;
  }}</${Show}>`;
}

/** What each switch does, before it does it. */
const SWITCHES = {
  push: {
    label: "Keep pushes on disk", hint: "Pushes are accepted and kept by the brokers, pops go on with what is stored.", where: "/api/v1/system/maintenance",
    on: "All brokers accept pushes and keep them on their disks instead of storing them. Consumers get only what is stored already. Use it while the database is maintained.",
    off: "All brokers store what they kept, in order, and store new pushes at once.",
  },
  pop: {
    label: "Pause all pops", hint: "No consumer of any group gets messages.", where: "/api/v1/system/maintenance/pop",
    on: "No broker hands out messages to any group. Pops that wait are held until their timeout, the others are answered empty. Acks are still taken.",
    off: "All groups get messages again.",
  },
};
/** @typedef {{id: "push" | "pop", enabled: boolean}} Wanted */

/** @param {{of: import("../lib/poll.js").Resource<BrokerMemory>, onDone: () => void}} props */
function Switches({ of, onDone }) {
  const [wanted, setWanted] = useState(/** @type {Wanted | null} */ (null));
  const about = wanted && SWITCHES[wanted.id];
  const run = async () => {
    if (!wanted || !about) return;
    await send("POST", about.where, { enabled: wanted.enabled });
    toast(`${about.label}: ${wanted.enabled ? "on" : "off"}.`, "good");
    onDone();
  };
  const toggle = (/** @type {"push" | "pop"} */ id, /** @type {boolean} */ checked) => html`<${Toggle} label=${SWITCHES[id].label} hint=${SWITCHES[id].hint}
    checked=${checked} disabled=${!may("admin")} onChange=${() => setWanted({ id, enabled: !checked })} />`;
  return html`<${Card} title="Maintenance" note=${may("admin") ? "Switches for all brokers." : "Switches for all brokers. They need the role admin."}>
    <${Show} of=${of} what="the switches">${(/** @type {BrokerMemory} */ data) => html`<div class="switches" key=${String(wanted === null)}>
      ${toggle("push", data.maintenanceMode)}${toggle("pop", data.popMaintenanceMode)}
    </div>`}</${Show}>
    ${wanted && about && html`<${ConfirmDialog} title=${`${about.label}: ${wanted.enabled ? "on" : "off"}`} action=${wanted.enabled ? "Switch on" : "Switch off"}
      onConfirm=${run} onClose=${() => setWanted(null)}><p>${wanted.enabled ? about.on : about.off}</p></${ConfirmDialog}>`}
  </${Card}>`;
}

/** @param {{stats: OperationStats | null, onDone: () => void}} props */
function RetryAll({ stats, onDone }) {
  const failed = stats?.byStatus.failed?.operations ?? 0;
  const aside = stats?.aside.records ?? 0;
  const run = async () => {
    const { operations, retried, remaining, error } = /** @type {OperationsRetried} */ (await send("POST", "/api/v1/operations/retry"));
    onDone();
    if (remaining) throw new Error(`${plural(remaining, "push request")} stay set aside${error ? `: ${error}` : "."}`);
    return `${plural(operations + retried, "push request")} run again.`;
  };
  return html`<${ActionButton} label="Retry all" icon="refresh" role="admin" disabled=${failed + aside === 0} title="Retry everything that failed" action="Retry all" run=${run}>
    <p>${plural(failed, "failed operation")} run again, and ${plural(aside, "push request")} of this broker go back into its spool. What was stored
      meanwhile is not stored twice.</p>
  </${ActionButton}>`;
}

/** @param {{status: string}} props */
const StatusPicker = ({ status }) => html`<div class="segments" role="group" aria-label="Status">
  ${STATUSES.map((one) => html`<button key=${one} type="button" aria-pressed=${one === status}
    onClick=${() => setQuery({ status: one, offset: null })}>${one || "all"}</button>`)}
</div>`;

/** @param {() => void} onDone @returns {import("../components/table.js").Column<Operation>[]} */
const operationColumns = (onDone) => [
  { id: "queue", title: "Queue", cell: (row) => html`<a class="strong name" href=${link("queues", row.queue)}>${visible(row.queue)}</a><span class="muted sub">${visible(row.partition)}</span>` },
  {
    id: "status", title: "Status",
    cell: (row) => html`<${Badge} tone=${TONES[row.status] ?? "neutral"}>${row.status}</${Badge}>${row.error && html`<span class="sub field-error">${visible(row.error)}</span>`}`,
  },
  { id: "items", title: "Messages", align: "end", cell: (row) => count(row.itemCount) },
  { id: "size", title: "Size", align: "end", isWide: true, cell: (row) => bytes(row.size) },
  { id: "reason", title: "Why queued", isWide: true, cell: (row) => row.reason ?? "–" },
  { id: "tries", title: "Tries", align: "end", isWide: true, cell: (row) => `${count(row.retryCount)} of ${count(row.maxRetries)}` },
  { id: "age", title: "Accepted", align: "end", cell: (row) => html`<${Time} at=${row.createdAt} relative />` },
  { id: "act", title: "Actions", align: "end", cell: (row) => html`<${Decide} row=${row} onDone=${onDone} />` },
];

/** @param {{row: Operation, onDone: () => void}} props */
function Decide({ row, onDone }) {
  const act = (/** @type {"retry" | "discard"} */ what) => async () => {
    await send("POST", what === "retry" ? path`/api/v1/operations/${row.id}/retry` : path`/api/v1/operations/${row.id}/discard`);
    onDone();
    return what === "retry" ? "The operation runs again." : `Discarded ${plural(row.itemCount, "message")}.`;
  };
  return html`<span class="row-actions">
    <${ActionButton} label="Retry" isQuiet role="admin" disabled=${row.status !== "failed"} title="Retry the operation" action="Retry" run=${act("retry")}>
      <p>${plural(row.itemCount, "message")} for <code>${visible(row.queue)}</code> are tried again.</p>
    </${ActionButton}>
    <${ActionButton} label="Discard" isQuiet role="admin" disabled=${!OPEN.includes(row.status)} title="Discard the operation" action="Discard" typed=${row.queue} run=${act("discard")}>
      <p>${plural(row.itemCount, "message")} that a producer was told are accepted will never be stored. This cannot be undone.</p>
    </${ActionButton}>
  </span>`;
}

/** @type {import("../components/table.js").Column<AsideRecord>[]} */
const ASIDE_COLUMNS = [
  { id: "queues", title: "Queues", cell: (row) => html`<span class="strong name">${row.queues.join(", ") || "not known"}</span><span class="muted sub name">${row.partitions.join(", ")}</span>` },
  { id: "reason", title: "Reason", cell: (row) => html`<span class="name">${row.reason}</span>${row.file && html`<code class="sub">${row.file}</code>`}` },
  { id: "items", title: "Messages", align: "end", cell: (row) => (row.isReadable ? count(row.itemCount) : html`<${Badge} tone="danger">unreadable</${Badge}>`) },
  { id: "size", title: "Size", align: "end", isWide: true, cell: (row) => bytes(row.size) },
  { id: "at", title: "Set aside", align: "end", cell: (row) => html`<${Time} at=${row.setAsideAt} relative />` },
];
