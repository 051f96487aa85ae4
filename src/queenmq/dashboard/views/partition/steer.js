/**
 * What a person can do with a group in a partition: end its lease, skip its next message, move it. Each shows first
 * what it would do.
 */
import { Button } from "../../components/basics.js";
import { ConfirmDialog } from "../../components/dialog.js";
import { SelectField, TextField } from "../../components/forms.js";
import { ErrorNote, Loading } from "../../components/page.js";
import { toast } from "../../components/toasts.js";
import { get, path, send } from "../../lib/api.js";
import { groupLabel } from "../../lib/groups.js";
import { count, plural, visible } from "../../lib/format.js";
import { useResource } from "../../lib/poll.js";
import { may } from "../../lib/store.js";
import { useState, html } from "../../lib/ui.js";
import { nextMessageSeq } from "./window.js";

/**
 * @typedef {import("./window.js").PartitionDetail} PartitionDetail
 * @typedef {import("./window.js").PartitionCursor} PartitionCursor
 * @typedef {{seq?: number, timestamp?: string, toEnd?: boolean}} Target
 * @typedef {import("../../lib/types.js").SeekPreview} SeekPreview
 * @typedef {{place: PartitionDetail, cursor: PartitionCursor, messages: import("./window.js").MessageSummary[], onDone: () => void}} Props
 */

/** @param {Props} props */
export function GroupActions({ place, cursor, messages, onDone }) {
  const [asked, setAsked] = useState(/** @type {"release" | "skip" | "seek" | null} */ (null));
  const isAllowed = may("read-write");
  const title = isAllowed ? undefined : "Your role may not move groups";
  const given = { place, cursor, messages, onDone, onClose: () => setAsked(null) };
  return html`<div class="row-actions">
    <${Button} disabled=${!isAllowed || !cursor.leasedUntil} title=${title ?? (cursor.leasedUntil ? undefined : "There is no lease")}
      onClick=${() => setAsked("release")}>Release</${Button}>
    <${Button} disabled=${!isAllowed || cursor.lag <= 0} title=${title ?? (cursor.lag > 0 ? undefined : "There is no message to skip")}
      onClick=${() => setAsked("skip")}>Skip one</${Button}>
    <${Button} disabled=${!isAllowed} title=${title} onClick=${() => setAsked("seek")}>Seek</${Button}>
    ${asked === "release" && html`<${Release} ...${given} />`}
    ${asked === "skip" && html`<${Skip} ...${given} />`}
    ${asked === "seek" && html`<${Seek} ...${given} />`}
  </div>`;
}

/** @param {Props & {onClose: () => void}} props */
function Release({ place, cursor, onDone, onClose }) {
  const release = async () => {
    const { ended } = /** @type {import("../../lib/types.js").LeaseEnded} */ (await send(
      "POST", path`/api/v1/consumer-groups/${cursor.consumerGroup}/queues/${place.queue}/partitions/${place.name}/release`));
    toast(ended ? `Released the lease of ${groupLabel(cursor.consumerGroup)}.` : "The lease had ended already.", ended ? "good" : "warning");
    onDone();
  };
  return html`<${ConfirmDialog} title="Release the lease?" action="Release" onConfirm=${release} onClose=${onClose}>
    <p>The messages up to ${count(cursor.leaseEndSeq)} go to the next consumer of ${groupLabel(cursor.consumerGroup)} at once.</p>
    <p>The consumer that holds them now cannot ack them any more. If it still works on them, they are handled twice.</p>
  </${ConfirmDialog}>`;
}

/** What a seek would do, asked of the broker. @param {PartitionDetail} place @param {string} group @param {Target | null} target */
function usePreview(place, group, target) {
  /** @type {(signal: AbortSignal) => Promise<SeekPreview | null>} */
  const load = async (signal) => target && get(
    path`/api/v1/consumer-groups/${group}/queues/${place.queue}/seek-preview`, { partition: place.name, ...target }, { signal });
  return useResource(load, { inputs: [JSON.stringify(target)] });
}

/** @param {{of: import("../../lib/poll.js").Resource<SeekPreview | null>}} props */
function Preview({ of: { data, error } }) {
  if (error) return html`<${ErrorNote} error=${error} />`;
  if (!data) return html`<${Loading} what="what this would do" />`;
  if (data.messagesSkipped) return html`<p class="note note-warning">${plural(data.messagesSkipped, "message")} would be skipped: the group never gets ${data.messagesSkipped === 1 ? "it" : "them"}.</p>`;
  if (data.messagesAgain) return html`<p class="note note-warning">${plural(data.messagesAgain, "message")} would be delivered again.</p>`;
  return html`<p class="note">Nothing would change: the group is there already.</p>`;
}

/** @param {PartitionDetail} place @param {string} group @param {Target} target */
async function seek(place, group, target) {
  const { toEnd, ...body } = target;
  await send("POST", path`/api/v1/consumer-groups/${group}/queues/${place.queue}/partitions/${place.name}/seek`, body);
}

/** @param {Props & {onClose: () => void}} props */
function Skip({ place, cursor, messages, onDone, onClose }) {
  // Fixed when the dialog opens: a cursor that moves meanwhile must not make it skip another message.
  const [next] = useState(() => nextMessageSeq(cursor, place, messages));
  const target = { seq: next + 1 };
  const preview = usePreview(place, cursor.consumerGroup, target);
  const message = messages.find((one) => one.seq === next);
  const skip = async () => {
    await seek(place, cursor.consumerGroup, target);
    toast(`${groupLabel(cursor.consumerGroup)} goes on after ${count(next)}.`, "good");
    onDone();
  };
  return html`<${ConfirmDialog} title="Skip one message?" action="Skip" onConfirm=${skip} onClose=${onClose} disabled=${!preview.data}>
    <p>${groupLabel(cursor.consumerGroup)} goes on after message ${count(next)}${message && html` (<code>${visible(message.transactionId)}</code>)`}.
      Its lease here ends, and failed attempts are forgotten.</p>
    <${Preview} of=${preview} />
    <p class="muted">To keep the message for later, open it and move it to the dead letters instead.</p>
  </${ConfirmDialog}>`;
}

const PLACES = [
  { value: "end", label: "the end: only new messages" },
  { value: "start", label: "the first message that is kept" },
  { value: "seq", label: "a message by its number" },
  { value: "time", label: "a time" },
];

/** @param {string} kind @param {string} seq @param {string} time @param {PartitionDetail} place @returns {Target | null} */
export function targetOf(kind, seq, time, { firstSeq }) {
  if (kind === "end") return { toEnd: true };
  if (kind === "start") return { seq: Math.max(1, firstSeq) };
  if (kind === "seq") return /^\d{1,15}$/.test(seq) && Number(seq) > 0 ? { seq: Number(seq) } : null;
  const at = new Date(time);
  return Number.isNaN(at.getTime()) ? null : { timestamp: at.toISOString() };
}

/** @param {Props & {onClose: () => void}} props */
function Seek({ place, cursor, onDone, onClose }) {
  const [kind, setKind] = useState("end");
  const [seq, setSeq] = useState(String(Math.max(1, cursor.cursorSeq)));
  const [time, setTime] = useState("");
  const target = targetOf(kind, seq, time, place);
  const preview = usePreview(place, cursor.consumerGroup, target);
  const move = async () => {
    if (!target) return;
    await seek(place, cursor.consumerGroup, target);
    toast(`Moved ${groupLabel(cursor.consumerGroup)} in ${place.name}.`, "good");
    onDone();
  };
  return html`<${ConfirmDialog} title=${`Move ${groupLabel(cursor.consumerGroup)}`} action="Move" onConfirm=${move} onClose=${onClose}
    disabled=${!target || !preview.data}>
    <${SelectField} label="To" value=${kind} onChange=${setKind} options=${PLACES} />
    ${kind === "seq" && html`<${TextField} label="Number" inputmode="numeric" value=${seq} onChange=${setSeq}
      hint=${`${count(place.firstSeq)} to ${count(place.lastSeq)} are kept. This message comes next.`} error=${target ? null : "A whole number from 1."} />`}
    ${kind === "time" && html`<${TextField} label="Time" type="datetime-local" step="1" value=${time} onChange=${setTime}
      hint="In your zone. What was pushed after it comes next." />`}
    ${target && html`<${Preview} of=${preview} />`}
    <p class="muted">A lease of the group here ends: its consumer cannot ack any more.</p>
  </${ConfirmDialog}>`;
}
