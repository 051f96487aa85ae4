/**
 * A dialog that pushes one message, to try out a queue and its consumers.
 */
import { send } from "../lib/api.js";
import { sentence } from "../lib/errors.js";
import { parseExact } from "../lib/json.js";
import { link } from "../lib/router.js";
import { may } from "../lib/store.js";
import { useState, html } from "../lib/ui.js";
import { Button } from "./basics.js";
import { Dialog } from "./dialog.js";
import { TextArea, TextField } from "./forms.js";

/**
 * @typedef {import("../lib/types.js").PushQueued | import("../lib/types.js").PushDuplicate
 *   | import("../lib/types.js").PushRefused | import("../lib/types.js").PushBuffered} Outcome
 */

const EXAMPLE = '{\n  "hello": "world"\n}';

/** The button that opens the dialog. @param {{queue?: string, partition?: string, onPushed?: () => void}} props */
export function PushButton({ queue = "", partition = "", onPushed }) {
  const [isOpen, setOpen] = useState(false);
  return html`<${Button} icon="plus" disabled=${!may("read-write")} onClick=${() => setOpen(true)}
      title=${may("read-write") ? undefined : "Your role may not push"}>Push a message</${Button}>
    ${isOpen && html`<${PushDialog} queue=${queue} partition=${partition} onPushed=${onPushed} onClose=${() => setOpen(false)} />`}`;
}

/** What is wrong with the text of a payload, or null. @param {string} text */
export function payloadFault(text) {
  try {
    parseExact(text);
    return null;
  } catch (error) {
    return `This is not JSON: ${sentence(error)}`;
  }
}

/** @param {{queue: string, partition: string, onPushed?: () => void, onClose: () => void}} props */
function PushDialog({ onPushed, onClose, ...given }) {
  const [queue, setQueue] = useState(given.queue);
  const [partition, setPartition] = useState(given.partition);
  const [transactionId, setTransactionId] = useState("");
  const [payload, setPayload] = useState(EXAMPLE);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {string | null} */ (null));
  const [outcome, setOutcome] = useState(/** @type {Outcome | null} */ (null));
  const fault = payloadFault(payload);
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    if (fault || isBusy) return;
    setBusy(true);
    setError(null);
    setOutcome(null);
    try {
      const item = { queue, partition: partition || undefined, transactionId: transactionId || undefined, payload: parseExact(payload) };
      const [first] = /** @type {Outcome[]} */ (await send("POST", "/api/v1/push", { items: [item] }));
      setOutcome(first ?? null);
      onPushed?.();
    } catch (failure) {
      setError(sentence(failure));
    }
    setBusy(false);
  };
  return html`<${Dialog} title="Push a message" onClose=${onClose} isWide>
    <form onSubmit=${submit}>
      <div class="field-row">
        <${TextField} label="Queue" mono required value=${queue} onChange=${setQueue} hint="Made by the push if it does not exist." />
        <${TextField} label="Partition" mono value=${partition} onChange=${setPartition} placeholder="Default" hint="Messages of one partition keep their order." />
      </div>
      <${TextArea} label="Payload" value=${payload} onChange=${setPayload} error=${fault} hint="Any JSON." />
      <${TextField} label="Transaction id" mono value=${transactionId} onChange=${setTransactionId}
        hint="A second push of the same id to the partition is a duplicate. Empty: a new one." />
      ${error && html`<p class="form-error" role="alert">${error}</p>`}
      <div role="status">${outcome && html`<${Said} outcome=${outcome} />`}</div>
      <footer class="dialog-footer">
        <${Button} onClick=${onClose}>${outcome ? "Close" : "Cancel"}</${Button}>
        <${Button} kind="primary" type="submit" isBusy=${isBusy} disabled=${queue === "" || fault !== null}>Push</${Button}>
      </footer>
    </form>
  </${Dialog}>`;
}

/** @param {{outcome: Outcome}} props */
function Said({ outcome }) {
  if (outcome.status === "failed") return html`<p class="form-error">${outcome.error}</p>`;
  if (outcome.status === "buffered") {
    return html`<p class="note note-warning">Accepted and safe, but stored later (${outcome.reason ?? "waiting"}).</p>`;
  }
  const where = link("messages", outcome.partition_id, outcome.transaction_id);
  return outcome.status === "duplicate"
    ? html`<p class="note note-warning">A message of this transaction id is there already. <a href=${where}>Open it</a></p>`
    : html`<p class="note note-good">Stored. <a href=${where}>Open the message</a></p>`;
}
