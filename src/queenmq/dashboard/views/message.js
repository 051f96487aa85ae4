/**
 * One message: its payload, its state in every group, and what is known of its deliveries.
 */
import { Badge, CopyButton, Fact, Time } from "../components/basics.js";
import { Countdown } from "../components/countdown.js";
import { Card, Empty, PageHeader, Show } from "../components/page.js";
import { Payload } from "../components/payload.js";
import { DataTable } from "../components/table.js";
import { get, path } from "../lib/api.js";
import { count, plural } from "../lib/format.js";
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
  /** @type {(signal: AbortSignal) => Promise<{traces: Trace[]}>} */
  const load = (signal) => get(path`/api/v1/traces/${message.partitionId}/${message.transactionId}`, {}, { signal });
  const traces = useResource(load, { everyMs: 10_000, inputs: [message.partitionId, message.transactionId] });
  return html`<${Card} title="History" note="what consumers recorded about it">
    <${Show} of=${traces} what="traces">${(/** @type {{traces: Trace[]}} */ { traces: list }) => html`
      <ol class="steps">
        <li class="step"><span class="step-dot" aria-hidden="true"></span><div><p class="strong">Pushed</p><p class="muted"><${Time} at=${message.createdAt} /></p></div></li>
        ${list.map((one) => html`<${Step} key=${one.id} trace=${one} />`)}
      </ol>
      ${list.length === 0
        ? html`<${Empty} title="No traces" icon="traces">Deliveries are not written down one by one. Consumers record what they do with the trace call of a message.</${Empty}>`
        : html`<p class="muted">${plural(list.length, "trace")}</p>`}`}</${Show}>
  </${Card}>`;
}

/** @param {{trace: Trace}} props */
function Step({ trace }) {
  return html`<li class="step"><span class="step-dot" aria-hidden="true"></span><div>
    <p><span class="strong">${trace.event_type}</span>${trace.consumer_group && html` by ${groupLabel(trace.consumer_group)}`}
      ${(trace.trace_names ?? []).map((name) => html` <code key=${name}>${name}</code>`)}</p>
    <p class="muted"><${Time} at=${trace.created_at} /></p>
    <details><summary>Data</summary><${Payload} value=${trace.data} label="data of the trace" /></details>
  </div></li>`;
}
