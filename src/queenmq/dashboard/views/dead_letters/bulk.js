/**
 * Retries or purges all dead letters that match: it counts first, then works in steps and says how far it is.
 */
import { Button } from "../../components/basics.js";
import { Dialog } from "../../components/dialog.js";
import { Loading } from "../../components/page.js";
import { toast } from "../../components/toasts.js";
import { get, send } from "../../lib/api.js";
import { sentence } from "../../lib/errors.js";
import { count, plural, visible } from "../../lib/format.js";
import { groupLabel } from "../../lib/groups.js";
import { useEffect, useRef, useState, html } from "../../lib/ui.js";

/**
 * @typedef {import("../../lib/types.js").DeadLettersRetried} Retried
 * @typedef {import("../../lib/types.js").DeadLettersPurged} Purged
 * @typedef {import("../../lib/types.js").DeadLetterList} DeadLetterList
 * @typedef {{done: number, refused: number, isOver: boolean}} Progress
 */

/** Letters of one call: each is a transaction that others may have to wait for. */
const STEP = 200;

/**
 * @param {"retry" | "purge"} kind
 * @param {import("./list.js").Filter} filter
 */
async function step(kind, filter) {
  const given = Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== ""));
  if (kind === "purge") {
    const { purged, remaining } = /** @type {Purged} */ (await send("DELETE", "/api/v1/dlq", undefined, { query: { ...given, limit: STEP } }));
    return { done: purged, refused: 0, hasMore: remaining };
  }
  const { retried, pushed, refused, remaining } = /** @type {Retried} */ (await send("POST", "/api/v1/dlq/retry", { ...given, limit: STEP }));
  // Where a queue is full nothing is pushed any more, and asking again would not end.
  return { done: retried, refused, hasMore: remaining && pushed > 0 };
}

/** @param {{kind: "retry" | "purge", filter: import("./list.js").Filter, onClose: () => void, onDone: () => void}} props */
export function BulkDialog({ kind, filter, onClose, onDone }) {
  const [total, setTotal] = useState(/** @type {number | null} */ (null));
  const [progress, setProgress] = useState(/** @type {Progress | null} */ (null));
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const isStopped = useRef(false);
  useEffect(() => {
    get("/api/v1/dlq", { ...filter, limit: 1 }).then((found) => setTotal(/** @type {DeadLetterList} */ (found).total), setError);
    return () => {
      isStopped.current = true;
    };
  }, []);
  const run = async () => {
    let [done, refused, hasMore] = [0, 0, true];
    setError(null);
    setProgress({ done, refused, isOver: false });
    try {
      while (hasMore && !isStopped.current) {
        const last = await step(kind, filter);
        [done, refused, hasMore] = [done + last.done, last.refused, last.hasMore];
        setProgress({ done, refused, isOver: !hasMore });
      }
      toast(`${kind === "retry" ? "Retried" : "Purged"} ${plural(done, "dead letter")}.`, "good");
    } catch (failure) {
      setError(failure);
      setProgress({ done, refused, isOver: true });
    }
    onDone();
  };
  const verb = kind === "retry" ? "Retry" : "Purge";
  return html`<${Dialog} title=${`${verb} dead letters`} onClose=${onClose}>
    <div class="dialog-text">
      ${total === null && !error ? html`<${Loading} what="the count" />` : html`<${Question} kind=${kind} filter=${filter} total=${total} />`}
      ${progress && html`<${Bar} progress=${progress} total=${total ?? 0} kind=${kind} />`}
      ${Boolean(error) && html`<p class="form-error" role="alert">${sentence(error)}</p>`}
    </div>
    <footer class="dialog-footer">
      ${progress
        ? html`<${Button} onClick=${onClose}>${progress.isOver ? "Close" : "Stop"}</${Button}>`
        : html`<${Button} onClick=${onClose}>Cancel</${Button}>
          <${Button} kind=${kind === "purge" ? "danger" : "primary"} disabled=${!total} onClick=${run}>${verb} ${total === null ? "" : count(total)}</${Button}>`}
    </footer>
  </${Dialog}>`;
}

/** @param {{kind: "retry" | "purge", filter: import("./list.js").Filter, total: number | null}} props */
function Question({ kind, filter, total }) {
  if (total === null) return null;
  return html`
    <p><strong>${plural(total, "dead letter")}</strong> of
      ${filter.queue ? html` queue <code>${visible(filter.queue)}</code>` : " all queues"}${filter.partition && html`, partition <code>${visible(filter.partition)}</code>`}
      ${filter.consumerGroup && html`, group <code>${groupLabel(filter.consumerGroup)}</code>`}
      ${filter.error && html`, whose error begins with <code>${visible(filter.error)}</code>`}</p>
    ${kind === "retry"
      ? html`<p>Each payload is pushed again to the end of its partition, and its dead letters are removed. Every group of the queue gets the
          new message, also those that handled it the first time.</p>`
      : html`<p>They are forgotten for good, with their payloads. This cannot be undone.</p>`}`;
}

/** @param {{progress: Progress, total: number, kind: "retry" | "purge"}} props */
function Bar({ progress: { done, refused, isOver }, total, kind }) {
  return html`<div class="progress-block" role="status">
    <progress max=${Math.max(total, done, 1)} value=${done} aria-label="Progress"></progress>
    <p>${count(done)} of ${count(Math.max(total, done))} ${kind === "retry" ? "retried" : "purged"}${isOver ? "." : "…"}
      ${refused > 0 && html` ${plural(refused, "letter")} stayed: the queue is full.`}</p>
  </div>`;
}
