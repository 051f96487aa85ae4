/**
 * Clear and delete a queue: for administrators, after its name was typed.
 */
import { Button } from "../../components/basics.js";
import { ConfirmDialog } from "../../components/dialog.js";
import { Card } from "../../components/page.js";
import { toast } from "../../components/toasts.js";
import { path, send } from "../../lib/api.js";
import { count, plural } from "../../lib/format.js";
import { go, link } from "../../lib/router.js";
import { may } from "../../lib/store.js";
import { useState, html } from "../../lib/ui.js";

/** @typedef {import("../../lib/types.js").QueueDetail} QueueDetail */

/** @param {{queue: QueueDetail, onCleared: () => void}} props */
export function DangerZone({ queue, onCleared }) {
  const [asked, setAsked] = useState(/** @type {"clear" | "delete" | null} */ (null));
  const title = may("admin") ? undefined : "Only administrators may do this";
  const close = () => setAsked(null);
  return html`<${Card} title="Danger zone">
    <div class="danger-row">
      <div><p class="strong">Clear the queue</p><p class="muted">Drops all messages, dead letters and traces. Options, partitions and groups stay.</p></div>
      <${Button} disabled=${!may("admin")} title=${title} onClick=${() => setAsked("clear")}>Clear queue</${Button}>
    </div>
    <div class="danger-row">
      <div><p class="strong">Delete the queue</p><p class="muted">Removes it with everything in it. Groups forget it.</p></div>
      <${Button} kind="danger" disabled=${!may("admin")} title=${title} onClick=${() => setAsked("delete")}>Delete queue</${Button}>
    </div>
    ${asked === "clear" && html`<${Clear} queue=${queue} onClose=${close} onCleared=${onCleared} />`}
    ${asked === "delete" && html`<${Delete} queue=${queue} onClose=${close} />`}
  </${Card}>`;
}

/** @param {{queue: QueueDetail}} props */
function Loss({ queue: { totals } }) {
  return html`<p>${plural(totals.total, "message")} (${count(totals.pending)} not consumed) and
    ${plural(totals.deadLetter, "dead letter")} are lost. This cannot be undone.</p>`;
}

/** @param {{queue: QueueDetail, onClose: () => void, onCleared: () => void}} props */
function Clear({ queue, onClose, onCleared }) {
  const clear = async () => {
    const { messagesDeleted } = /** @type {import("../../lib/types.js").QueueCleared} */ (
      await send("DELETE", path`/api/v1/queues/${queue.name}/clear`));
    toast(`Dropped ${plural(messagesDeleted, "message")} of ${queue.name}.`, "good");
    onCleared();
  };
  return html`<${ConfirmDialog} title="Clear this queue?" action="Clear queue" typed=${queue.name} onConfirm=${clear} onClose=${onClose}>
    <${Loss} queue=${queue} />
  </${ConfirmDialog}>`;
}

/** @param {{queue: QueueDetail, onClose: () => void}} props */
function Delete({ queue, onClose }) {
  const remove = async () => {
    await send("DELETE", path`/api/v1/resources/queues/${queue.name}`);
    toast(`Deleted queue ${queue.name}.`, "good");
    go(link("queues"));
  };
  return html`<${ConfirmDialog} title="Delete this queue?" action="Delete queue" typed=${queue.name} onConfirm=${remove} onClose=${onClose}>
    <${Loss} queue=${queue} />
    <p>The next push to this name makes a new queue with default options.</p>
  </${ConfirmDialog}>`;
}
