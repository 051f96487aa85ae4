/**
 * One dead letter: its error in every group, attempts, payload, and how it differs from another letter.
 */
import { ActionButton } from "../../components/action.js";
import { Badge, CopyButton, Fact, Time } from "../../components/basics.js";
import { Diff } from "../../components/diff.js";
import { SelectField } from "../../components/forms.js";
import { Card, Empty, PageHeader, Show } from "../../components/page.js";
import { Payload } from "../../components/payload.js";
import { get, path, send } from "../../lib/api.js";
import { count, visible } from "../../lib/format.js";
import { groupLabel } from "../../lib/groups.js";
import { useResource } from "../../lib/poll.js";
import { go, link, setQuery } from "../../lib/router.js";
import { html } from "../../lib/ui.js";

/**
 * @typedef {import("../../lib/types.js").MessageDetail} MessageDetail
 * @typedef {import("../../lib/types.js").DeadLetterList} DeadLetterList
 * @typedef {import("../../lib/types.js").StoredDeadLetter} Letter
 * @typedef {{message: MessageDetail, own: Letter[], others: Letter[]}} Found
 */

/** Letters of the queue that can be compared with. */
const OTHERS = 100;

export const view = { path: "/dead-letters/:partition/:transaction", title: "Dead letter", under: "/dead-letters", component: DeadLetter };

/** @param {string} partition @param {string} transaction @param {AbortSignal} signal @returns {Promise<Found>} */
async function load(partition, transaction, signal) {
  const message = /** @type {MessageDetail} */ (await get(path`/api/v1/messages/${partition}/${transaction}`, {}, { signal }));
  const near = /** @type {DeadLetterList} */ (await get("/api/v1/dlq", { queue: message.queue, partition: message.partition, limit: 1_000 }, { signal }));
  const wide = /** @type {DeadLetterList} */ (await get("/api/v1/dlq", { queue: message.queue, limit: OTHERS }, { signal }));
  const isOwn = (/** @type {Letter} */ one) => one.partitionId === partition && one.transactionId === transaction;
  return { message, own: near.messages.filter(isOwn), others: wide.messages.filter((one) => !isOwn(one)) };
}

/** @param {import("../registry.js").ViewProps} props */
function DeadLetter({ params, query }) {
  const partition = params.partition ?? "";
  const transaction = params.transaction ?? "";
  const found = useResource((signal) => load(partition, transaction, signal), { inputs: [partition, transaction] });
  const retry = async () => {
    const { newTransactionId } = /** @type {import("../../lib/types.js").MessageRetried} */ (
      await send("POST", path`/api/v1/messages/${partition}/${transaction}/retry`));
    go(link("dead-letters", { queue: found.data?.message.queue ?? "", tab: "letters" }));
    return `Pushed again as ${newTransactionId}.`;
  };
  return html`
    <${PageHeader} title=${transaction} crumbs=${[{ label: "Dead letters", href: "#/dead-letters" }]}>
      <${CopyButton} text=${transaction} what="transaction id" />
      <a class="button button-plain" href=${link("messages", partition, transaction)}>Open message</a>
      <a class="button button-plain" href=${link("traces", "message", partition, transaction)}>Open trace</a>
      <${ActionButton} label="Retry" icon="refresh" role="read-write" title="Retry the dead letter" action="Retry" run=${retry}
        disabled=${!found.data?.own.length}>
        <p>Its payload is pushed again to the end of its partition, and its dead letters are removed. Every group of the queue gets the
          new message, also those that handled it the first time.</p>
      </${ActionButton}>
    </${PageHeader}>
    <${Show} of=${found} what="the dead letter">${(/** @type {Found} */ data) => html`
      <${About} data=${data} />
      <div class="below"><${Card} title="Payload"><${Payload} value=${data.message.payload} /></${Card}></div>
      <div class="below"><${Compare} data=${data} chosen=${query.with ?? ""} /></div>`}</${Show}>`;
}

/** @param {{data: Found}} props */
function About({ data: { message, own } }) {
  return html`<${Card} title="What happened" note=${html`<a href=${link("queues", message.queue)}>${visible(message.queue)}</a> / ${message.partition}`}>
    <dl class="facts">
      <${Fact} label="Pushed"><${Time} at=${message.createdAt} /></${Fact}>
      <${Fact} label="By">${message.producerSub ?? "–"}</${Fact}>
      <${Fact} label="Retries allowed">${count(message.queueConfig.retryLimit)}</${Fact}>
      <${Fact} label="State now"><${Badge} tone=${message.status === "dead_letter" ? "danger" : "neutral"}>${message.status.replace("_", " ")}</${Badge}></${Fact}>
    </dl>
    ${own.length === 0 && html`<p class="muted below">No group has a dead letter of this message any more.</p>`}
    <ol class="attempts">${own.map((one) => html`<li key=${one.id}>
      <span class="strong">${groupLabel(one.consumerGroup)}</span>
      <span>gave up <${Time} at=${one.failedAt} /> after ${count(one.retryCount)} ${one.retryCount === 1 ? "retry" : "retries"}</span>
      <code class="attempt-error">${visible(one.errorMessage) || "(no error was given)"}</code>
    </li>`)}</ol>
  </${Card}>`;
}

/** @param {{data: Found, chosen: string}} props */
function Compare({ data: { message, others }, chosen }) {
  const key = (/** @type {Letter} */ one) => `${one.partitionId}/${one.transactionId}`;
  const unique = [...new Map(others.map((one) => [key(one), one])).values()];
  const other = unique.find((one) => key(one) === chosen);
  const options = [{ value: "", label: "Choose a dead letter" }, ...unique.map((one) => ({
    value: key(one), label: `${one.transactionId}: ${(one.errorMessage || "no error").slice(0, 60)}`,
  }))];
  return html`<${Card} title="Compare with another letter of the queue">
    ${unique.length === 0
      ? html`<${Empty} title="There is no other dead letter in this queue" icon="dead" />`
      : html`<${SelectField} label="Other letter" value=${chosen} options=${options} onChange=${(/** @type {string} */ value) => setQuery({ with: value })}
          hint="The newest 100 of the queue." />`}
    ${other && html`<${Diff} left=${message.payload} right=${other.data} leftName=${message.transactionId} rightName=${other.transactionId} />`}
  </${Card}>`;
}
