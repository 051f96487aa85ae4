/**
 * One message: its payload, its state in every group, and what is known of its deliveries.
 */
import { Badge, CopyButton, Fact, Time } from "../components/basics.js";
import { Countdown } from "../components/countdown.js";
import { Card, PageHeader, Show } from "../components/page.js";
import { Payload } from "../components/payload.js";
import { DataTable } from "../components/table.js";
import { get, path } from "../lib/api.js";
import { findDeliveries, keepNote, stepsOfDelivery } from "../lib/deliveries.js";
import { count, later } from "../lib/format.js";
import { useResource } from "../lib/poll.js";
import { link } from "../lib/router.js";
import { html } from "../lib/ui.js";
import { MessageActions } from "./messages/actions.js";
import { statusTone, statusWord } from "./messages/status.js";
import { groupLabel } from "../lib/groups.js";

/**
 * @typedef {import("../lib/types.js").MessageDetail} MessageDetail
 * @typedef {import("../lib/types.js").MessageGroup} MessageGroup
 * @typedef {import("../lib/types.js").Trace} Trace
 * @typedef {{traces: Trace[], deliveries: import("../lib/types.js").MessageDeliveries | null}} Past
 */

export const view = {
  path: "/messages/:partitionId/:transactionId",
  title: "Message",
  under: "/messages",
  component: Message,
};

/** @param {import("./registry.js").ViewProps} props */
function Message({ params: { partitionId = "", transactionId = "" } }) {
  /** @type {(signal: AbortSignal) => Promise<MessageDetail>} */
  const load = (signal) => get(path`/api/v1/messages/${partitionId}/${transactionId}`, {}, { signal, isExact: true });
  const message = useResource(load, { everyMs: 5_000, inputs: [partitionId, transactionId] });
  return html`
    <${PageHeader} title=${transactionId} crumbs=${crumbsOf(message.data)}>
      ${message.data && html`<${MessageActions} message=${message.data} onDone=${message.reload} />`}
    </${PageHeader}>
    <${Show} of=${message} what="the message">${(/** @type {MessageDetail} */ data) => html`<${Body} message=${data} />`}</${Show}>`;
}

/** @param {MessageDetail | null} message */
function crumbsOf(message) {
  const all = [{ label: "Messages", href: link("messages") }];
  if (!message) return all;
  return [...all, { label: message.queue, href: link("queues", message.queue) },
    { label: message.partition, href: link("queues", message.queue, "partitions", message.partition, { at: message.seq }) }];
}

/** @param {{message: MessageDetail}} props */
function Body({ message }) {
  return html`<div class="message-columns">
    <div class="stack">
      <${Card} title="Payload"><${Payload} value=${message.payload} /></${Card}>
      <${History} message=${message} />
    </div>
    <div class="stack">
      <${Card} title="About"><${Facts} message=${message} /></${Card}>
      <${Card} title="Groups" flush>
        <${DataTable} label="State in every group" columns=${GROUP_COLUMNS} of=${{ data: message.consumerGroups, error: null, isLoading: false, at: 0, reload: () => {} }}
          rowKey=${(/** @type {MessageGroup} */ row) => row.name}
          empty=${{ title: "No group has been in its partition", text: "It waits until a consumer asks for it." }} />
      </${Card}>
    </div>
  </div>`;
}

/** @param {{message: MessageDetail}} props */
function Facts({ message }) {
  return html`<dl class="facts facts-list">
    <${Fact} label="Status"><${Badge} tone=${statusTone(message.status)}>${statusWord(message.status)}</${Badge}></${Fact}>
    <${Fact} label="Number">${count(message.seq)}</${Fact}>
    <${Fact} label="Pushed"><${Time} at=${message.createdAt} /> <span class="muted"><${Time} at=${message.createdAt} relative /></span></${Fact}>
    <${Fact} label="Pushed by">${message.producerSub ?? "–"}</${Fact}>
    <${Fact} label="Failed attempts">${count(message.retryCount)} <span class="muted">of ${count(message.queueConfig.retryLimit)} retries</span></${Fact}>
    ${message.traceId && html`<${Fact} label="Trace id"><span class="mono">${message.traceId}</span></${Fact}>`}
    <${Fact} label="Message id"><span class="copied"><span class="mono">${message.id}</span><${CopyButton} text=${message.id} what="message id" /></span></${Fact}>
    <${Fact} label="Partition id"><span class="copied"><span class="mono">${message.partitionId}</span><${CopyButton} text=${message.partitionId} what="partition id" /></span></${Fact}>
  </dl>
  ${message.errorMessage && html`<p class="note note-danger"><strong>Last error</strong> ${message.errorMessage}</p>`}`;
}

/** @type {import("../components/table.js").Column<MessageGroup>[]} */
const GROUP_COLUMNS = [
  { id: "name", title: "Group", cell: (row) => html`<span class="strong name">${groupLabel(row.name)}</span>` },
  {
    id: "state", title: "State",
    cell: (row) => row.leaseExpiresAt
      ? html`<${Badge} tone="accent">under lease</${Badge}> <${Countdown} from=${null} until=${row.leaseExpiresAt} />`
      : html`<${Badge} tone=${row.consumed ? "good" : "neutral"}>${row.consumed ? "passed" : "waits"}</${Badge}>`,
  },
];

/** @param {{message: MessageDetail}} props */
function History({ message }) {
  /** @type {(signal: AbortSignal) => Promise<Past>} */
  const load = async (signal) => {
    const [{ traces }, deliveries] = await Promise.all([
      get(path`/api/v1/traces/${message.partitionId}/${message.transactionId}`, {}, { signal }),
      findDeliveries(message.partitionId, message.transactionId, signal),
    ]);
    return { traces, deliveries };
  };
  const past = useResource(load, { everyMs: 10_000, inputs: [message.partitionId, message.transactionId] });
  return html`<${Card} title="History" note="deliveries, acks and what consumers recorded">
    <${Show} of=${past} what="the history">${(/** @type {Past} */ { traces, deliveries }) => {
      const note = keepNote(deliveries, message.queue);
      return html`<ol class="steps">
        <${Moment} at=${message.createdAt} label="pushed" />
        ${stepsOf(traces, deliveries, Date.parse(message.createdAt))}
      </ol>
      ${note && html`<p class="muted">${note}</p>`}
      ${traces.length === 0 && html`<p class="muted">No consumer has recorded a trace. <code>add_trace</code> of the client does that.</p>`}`;
    }}</${Show}>
  </${Card}>`;
}

/**
 * Deliveries and traces by time.
 * @param {Trace[]} traces
 * @param {import("../lib/types.js").MessageDeliveries | null} deliveries
 * @param {number} from When the message was pushed.
 */
function stepsOf(traces, deliveries, from) {
  const noted = traces.map((one) => ({ at: Date.parse(one.created_at), step: html`<${Step} key=${one.id} trace=${one} from=${from} />` }));
  const known = (deliveries?.deliveries ?? []).flatMap(stepsOfDelivery).map(({ at, label }) => (
    { at, step: html`<${Moment} key=${`${at} ${label}`} at=${new Date(at).toISOString()} label=${label} from=${from} />` }));
  return [...known, ...noted].sort((one, other) => one.at - other.at).map(({ step }) => step);
}

/** @param {{at: string, label: string, from?: number}} props */
const Moment = ({ at, label, from }) => html`<li class="step"><span class="step-dot" aria-hidden="true"></span><div>
  <p class="strong">${label[0]?.toUpperCase() + label.slice(1)}</p><p class="muted"><${Time} at=${at} /> ${from && later(Date.parse(at), from)}</p></div></li>`;

/** @param {{trace: Trace, from: number}} props */
function Step({ trace, from }) {
  return html`<li class="step"><span class="step-dot" aria-hidden="true"></span><div>
    <p><span class="strong">${trace.event_type}</span>${trace.consumer_group && html` by ${groupLabel(trace.consumer_group)}`}
      ${(trace.trace_names ?? []).map((name) => html` <code key=${name}>${name}</code>`)}</p>
    <p class="muted"><${Time} at=${trace.created_at} /> ${later(Date.parse(trace.created_at), from)}</p>
    <details><summary>Data</summary><${Payload} value=${trace.data} label="data of the trace" /></details>
  </div></li>`;
}
