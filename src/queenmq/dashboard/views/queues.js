/**
 * All queues: search, sort, what flows through each, and a dialog that makes a new one.
 */
import { Badge, Button, Time } from "../components/basics.js";
import { Dialog } from "../components/dialog.js";
import { TextField } from "../components/forms.js";
import { Card, PageHeader } from "../components/page.js";
import { SearchBox } from "../components/search.js";
import { Sparkline } from "../components/sparkline.js";
import { DataTable, parseSort, sorted, sortText } from "../components/table.js";
import { toast } from "../components/toasts.js";
import { get, send } from "../lib/api.js";
import { sentence } from "../lib/errors.js";
import { count, duration, rate, short, visible } from "../lib/format.js";
import { useResource } from "../lib/poll.js";
import { go, link, setQuery } from "../lib/router.js";
import { may, rangeQuery, range, useValue } from "../lib/store.js";
import { useMemo, useState, html } from "../lib/ui.js";

/**
 * @typedef {import("../lib/types.js").QueueSummary} QueueSummary
 * @typedef {import("../lib/types.js").ConsumerGroup} ConsumerGroup
 * @typedef {import("../lib/types.js").QueueOps} QueueOps
 * @typedef {QueueSummary & {rates: (number | null)[] | null, groups: number | null, lagSeconds: number | null}} Row `null`: not known.
 */

/** Queues that are asked for at once, the newest first. Beyond that a search narrows them. */
const QUEUES_MAX = 1_000;
const PAGE = 50;

export const view = {
  path: "/queues",
  title: "Queues",
  nav: { label: "Queues", icon: "queues", key: "q", group: "Watch" },
  component: Queues,
};

/** @type {import("../components/table.js").Column<Row>[]} */
const COLUMNS = [
  {
    id: "name", title: "Queue", sort: (row) => row.name,
    cell: (row) => html`<a class="strong name" href=${link("queues", row.name)}>${visible(row.name)}</a>
      ${row.namespace && html`<span class="muted sub">${row.namespace}${row.task && ` / ${row.task}`}</span>`}`,
  },
  {
    id: "flow", title: "In per second", sort: (row) => row.rates?.at(-1) ?? -1, isWide: true,
    cell: (row) => html`<span class="flow"><${Sparkline} values=${row.rates ?? []} label=${`Messages pushed to ${row.name} over time`} />
      <span>${rate(row.rates?.at(-1))}</span></span>`,
  },
  { id: "pending", title: "Pending", align: "end", sort: (row) => row.messages.pending, cell: (row) => html`<span title=${count(row.messages.pending)}>${short(row.messages.pending)}</span>` },
  { id: "leased", title: "Leased", align: "end", isWide: true, sort: (row) => row.messages.processing, cell: (row) => short(row.messages.processing) },
  { id: "total", title: "Stored", align: "end", isWide: true, sort: (row) => row.messages.total, cell: (row) => short(row.messages.total) },
  { id: "lag", title: "Lag", align: "end", sort: (row) => row.lagSeconds ?? -1, cell: (row) => html`<${Lag} row=${row} />` },
  { id: "groups", title: "Groups", align: "end", isWide: true, sort: (row) => row.groups ?? -1, cell: (row) => count(row.groups) },
  { id: "partitions", title: "Partitions", align: "end", isWide: true, sort: (row) => row.partitions, cell: (row) => short(row.partitions) },
  { id: "created", title: "Created", align: "end", isWide: true, sort: (row) => row.createdAt, cell: (row) => html`<${Time} at=${row.createdAt} relative />` },
];

/** @param {{row: Row}} props */
function Lag({ row }) {
  if (!row.groups || row.lagSeconds === null) return html`<span class="muted">–</span>`;
  if (row.lagSeconds < 1) return html`<${Badge} tone="good">none</${Badge}>`;
  return html`<${Badge} tone=${row.lagSeconds > 300 ? "danger" : row.lagSeconds > 60 ? "warning" : "neutral"}>${duration(row.lagSeconds)}</${Badge}>`;
}

/** @param {import("./registry.js").ViewProps} props */
function Queues({ query }) {
  const search = query.search ?? "";
  const sort = parseSort(query.sort, { by: "pending", isDown: true });
  const offset = Number(query.offset ?? 0) || 0;
  const [isNew, setNew] = useState(false);
  const chosen = useValue(range);
  const queues = useResource((signal) => get("/api/v1/resources/queues", { search, limit: QUEUES_MAX }, { signal }), {
    everyMs: 10_000, inputs: [search], keep: true,
  });
  const flows = useResource((signal) => get("/api/v1/analytics/queue-ops", { ...rangeQuery(), limit: QUEUES_MAX }, { signal }), { everyMs: 30_000, inputs: [chosen], keep: true });
  const groups = useResource((signal) => get("/api/v1/consumer-groups", {}, { signal }), { everyMs: 15_000 });
  const all = useMemo(() => rowsOf(queues.data, flows.data, groups.data), [queues.data, flows.data, groups.data]);
  const rows = all && sorted(all, COLUMNS, sort).slice(offset, offset + PAGE);
  const isCut = all?.length === QUEUES_MAX;
  return html`
    <${PageHeader} title="Queues" note=${isCut ? `Only the newest ${count(QUEUES_MAX)} queues are listed and sorted here. Search to find others.` : undefined}>
      <${SearchBox} label="Search queues" value=${search} onSearch=${(/** @type {string} */ text) => setQuery({ search: text, offset: null })} />
      <${Button} kind="primary" icon="plus" disabled=${!may("read-write")} onClick=${() => setNew(true)}
        title=${may("read-write") ? undefined : "Your role may not make queues"}>New queue</${Button}>
    </${PageHeader}>
    <${Card} flush>
      <${Missing} what="The lag and the groups" of=${groups} /><${Missing} what="The rates" of=${flows} />
      <${DataTable} label="Queues" columns=${COLUMNS} of=${{ ...queues, data: rows }} rowKey=${(/** @type {Row} */ row) => row.id}
        sort=${sort} onSort=${(/** @type {typeof sort} */ next) => setQuery({ sort: sortText(next), offset: null })}
        empty=${search
          ? { title: "No queue matches", text: "The search looks for a part of the name, in any case." }
          : { title: "No queues yet", text: "A queue is made by the first push to it, or with New queue." }}
        page=${{ offset, limit: PAGE, shown: rows?.length ?? 0, total: all?.length ?? 0, onPage: (/** @type {number} */ next) => setQuery({ offset: next || null }) }} />
    </${Card}>
    ${isNew && html`<${NewQueue} onClose=${() => setNew(false)} />`}`;
}

/** Says which columns are dashes because a request failed. @param {{what: string, of: import("../lib/poll.js").Resource<unknown>}} props */
function Missing({ what, of: { data, error } }) {
  if (!error) return null;
  return html`<p class="stale" role="status">${what} are ${data ? "old" : "not known"}: ${sentence(error)}</p>`;
}

/**
 * Join queues with their rates and groups. What is not known of a queue yet is empty.
 * @param {{queues: QueueSummary[]} | null} queues
 * @param {QueueOps | null} flows
 * @param {ConsumerGroup[] | null} groups
 * @returns {Row[] | null}
 */
export function rowsOf(queues, flows, groups) {
  if (!queues) return null;
  const buckets = [...new Set((flows?.series ?? []).map((point) => point.bucket))].sort();
  /** @type {Map<string, Map<string, number>>} */
  const rates = new Map();
  for (const point of flows?.series ?? []) {
    const byBucket = rates.get(point.queueName) ?? new Map();
    rates.set(point.queueName, byBucket.set(point.bucket, point.pushPerSecond));
  }
  /** @type {Map<string, ConsumerGroup[]>} */
  const byQueue = new Map();
  for (const one of groups ?? []) byQueue.set(one.queueName, [...(byQueue.get(one.queueName) ?? []), one]);
  return queues.queues.map((queue) => {
    const own = byQueue.get(queue.name) ?? [];
    const flow = rates.get(queue.name);
    return {
      ...queue,
      // A minute in which nothing was counted for the queue had no pushes.
      rates: flow ? buckets.map((bucket) => flow.get(bucket) ?? 0) : null,
      groups: groups && own.length,
      lagSeconds: groups && Math.max(0, ...own.map((one) => one.maxTimeLag)),
    };
  });
}

/** @param {{onClose: () => void}} props */
function NewQueue({ onClose }) {
  const [name, setName] = useState("");
  const [lease, setLease] = useState("300");
  const [retries, setRetries] = useState("3");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {string | null} */ (null));
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      // Configuring a queue that exists would replace all its options.
      const found = await get("/api/v1/resources/queues", { search: name, limit: QUEUES_MAX });
      if (/** @type {{queues: QueueSummary[]}} */ (found).queues.some((one) => one.name === name)) {
        throw new Error(`Queue ${name} exists already. Open it to change its options.`);
      }
      await send("POST", "/api/v1/configure", {
        queue: name, options: { leaseTime: Number(lease), retryLimit: Number(retries), retryDelay: 1000 },
      });
      toast(`Made queue ${name}.`, "good");
      onClose();
      go(link("queues", { search: name }));
    } catch (failure) {
      setError(sentence(failure));
      setBusy(false);
    }
  };
  return html`<${Dialog} title="New queue" onClose=${onClose}>
    <form onSubmit=${submit}>
      <${TextField} label="Name" value=${name} onChange=${setName} error=${error} mono required maxlength="255"
        hint="Text before the first dot becomes the namespace, as in billing.invoices." />
      <div class="field-row">
        <${TextField} label="Lease time" type="number" min="1" value=${lease} onChange=${setLease} hint="Seconds until a message is handed out again." />
        <${TextField} label="Retries" type="number" min="0" value=${retries} onChange=${setRetries} hint="Redeliveries before a dead letter." />
      </div>
      <footer class="dialog-footer">
        <${Button} onClick=${onClose}>Cancel</${Button}>
        <${Button} kind="primary" type="submit" isBusy=${isBusy} disabled=${name === ""}>Make queue</${Button}>
      </footer>
    </form>
  </${Dialog}>`;
}
