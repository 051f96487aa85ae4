/**
 * What a person can do with one message: push a dead letter again, move it to the dead letters, delete it.
 */
import { Button } from "../../components/basics.js";
import { ConfirmDialog } from "../../components/dialog.js";
import { TextField } from "../../components/forms.js";
import { toast } from "../../components/toasts.js";
import { path, send } from "../../lib/api.js";
import { visible } from "../../lib/format.js";
import { groupLabel } from "../../lib/groups.js";
import { go, link } from "../../lib/router.js";
import { may } from "../../lib/store.js";
import { useState, html } from "../../lib/ui.js";

/** @typedef {import("../../lib/types.js").MessageDetail} MessageDetail */

/** @param {{message: MessageDetail, onDone: () => void}} props */
export function MessageActions({ message, onDone }) {
  const [asked, setAsked] = useState(/** @type {"retry" | "bury" | "delete" | null} */ (null));
  const isAllowed = may("read-write");
  const title = isAllowed ? undefined : "Your role may not change messages";
  const isDead = message.status === "dead_letter";
  const given = { message, onDone, onClose: () => setAsked(null) };
  return html`
    <${Button} icon="refresh" disabled=${!isAllowed || !isDead} title=${title ?? (isDead ? undefined : "Only dead letters are retried")}
      onClick=${() => setAsked("retry")}>Retry</${Button}>
    <${Button} icon="dead" disabled=${!isAllowed || message.status === "completed" || isDead}
      title=${title ?? (isDead ? "It is a dead letter already" : message.status === "completed" ? "Every group has passed it" : undefined)}
      onClick=${() => setAsked("bury")}>Move to dead letters</${Button}>
    <${Button} icon="close" disabled=${!isAllowed} title=${title} onClick=${() => setAsked("delete")}>Delete</${Button}>
    ${asked === "retry" && html`<${Retry} ...${given} />`}
    ${asked === "bury" && html`<${Bury} ...${given} />`}
    ${asked === "delete" && html`<${Delete} ...${given} />`}`;
}

/** @param {MessageDetail} message */
const where = ({ partitionId, transactionId }) => path`/api/v1/messages/${partitionId}/${transactionId}`;

/** @typedef {{message: MessageDetail, onDone: () => void, onClose: () => void}} Props */

/** @param {Props} props */
function Retry({ message, onDone, onClose }) {
  const retry = async () => {
    const { newTransactionId, operationId } = /** @type {import("../../lib/types.js").MessageRetried} */ (await send("POST", `${where(message)}/retry`));
    toast(operationId ? "Accepted: it is pushed as soon as the pushes before it are." : "Pushed again at the end of its partition.", "good");
    if (newTransactionId && newTransactionId !== message.transactionId) go(link("messages", message.partitionId, newTransactionId));
    else onDone();
  };
  return html`<${ConfirmDialog} title="Retry this message?" action="Retry" kind="primary" onConfirm=${retry} onClose=${onClose}>
    <p>Its payload becomes a new message at the end of partition <code>${visible(message.partition)}</code>, and its dead letters are removed.</p>
    <p class="note note-warning">Every group of the queue gets the new message, also those that handled it the first time.</p>
  </${ConfirmDialog}>`;
}

/** @param {Props} props */
function Bury({ message, onDone, onClose }) {
  const [reason, setReason] = useState("");
  const left = message.consumerGroups.filter((one) => !one.consumed).map((one) => groupLabel(one.name));
  const bury = async () => {
    await send("POST", `${where(message)}/dlq`, reason.trim() ? { error: reason.trim() } : undefined);
    toast("Moved to the dead letters.", "good");
    onDone();
  };
  return html`<${ConfirmDialog} title="Move to the dead letters?" action="Move" onConfirm=${bury} onClose=${onClose}>
    <p>The message leaves its partition and becomes a dead letter of ${left.length ? left.join(", ") : "the default group"}. It can be retried from there.</p>
    <${TextField} label="Why" value=${reason} onChange=${setReason} hint="Kept with the dead letter. May be empty." maxlength="500" />
  </${ConfirmDialog}>`;
}

/** @param {Props} props */
function Delete({ message, onClose }) {
  const remove = async () => {
    await send("DELETE", where(message));
    toast("Deleted the message.", "good");
    go(link("queues", message.queue, "partitions", message.partition));
  };
  return html`<${ConfirmDialog} title="Delete this message?" action="Delete" typed="delete" onConfirm=${remove} onClose=${onClose}>
    <p>Groups that have not passed it never get it. Its dead letters and traces go as well. This cannot be undone.</p>
  </${ConfirmDialog}>`;
}
