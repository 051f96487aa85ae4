/**
 * Moves a group on a queue: to a time, to the end, or in one partition to a message. It counts before it moves.
 */
import { Button } from "../../components/basics.js";
import { Dialog } from "../../components/dialog.js";
import { SelectField, TextField } from "../../components/forms.js";
import { toast } from "../../components/toasts.js";
import { get, path, send } from "../../lib/api.js";
import { sentence } from "../../lib/errors.js";
import { count, plural } from "../../lib/format.js";
import { groupLabel } from "../../lib/groups.js";
import { useEffect, useState, html } from "../../lib/ui.js";

/** @typedef {import("../../lib/types.js").SeekPreview} SeekPreview */
/** @typedef {{to: string, time: string, seq: string, partition: string}} Target */

const PLACES = [
  { value: "time", label: "A time" },
  { value: "end", label: "The end: skip everything" },
  { value: "seq", label: "A message of one partition" },
];
/** While a person types, nothing is counted. */
const PAUSE_MS = 300;

/**
 * The target as the API takes it; null while something is missing.
 * @param {Target} target
 * @returns {{toEnd?: boolean, timestamp?: string, seq?: number} | null}
 */
export function seekBody({ to, time, seq, partition }) {
  if (to === "end") return { toEnd: true };
  if (to === "time") {
    const date = new Date(time);
    return Number.isNaN(date.getTime()) ? null : { timestamp: date.toISOString() };
  }
  return partition !== "" && /^\d+$/.test(seq) ? { seq: Number(seq) } : null;
}

/** What a datetime-local field takes, in the reader's zone. @param {Date} date */
function localInput(date) {
  const shifted = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return shifted.toISOString().slice(0, 19);
}

/** @param {{group: string, queue: string, onClose: () => void, onMoved: () => void}} props */
export function SeekDialog({ group, queue, onClose, onMoved }) {
  const [target, setTarget] = useState(() => ({ to: "time", time: localInput(new Date(Date.now() - 3_600_000)), seq: "", partition: "" }));
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  const preview = usePreview(group, queue, target);
  const body = seekBody(target);
  /** @param {Partial<Target>} change */
  const change = (change) => setTarget((last) => ({ ...last, ...change }));
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    try {
      await send("POST", target.partition
        ? path`/api/v1/consumer-groups/${group}/queues/${queue}/partitions/${target.partition}/seek`
        : path`/api/v1/consumer-groups/${group}/queues/${queue}/seek`, body);
      toast(`Moved ${groupLabel(group)} on ${queue}.`, "good");
      onMoved();
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${`Seek ${groupLabel(group)}`} onClose=${onClose}>
    <form onSubmit=${submit}>
      <${SelectField} label="Move to" value=${target.to} options=${PLACES} onChange=${(/** @type {string} */ to) => change({ to })} />
      ${target.to === "time" && html`<${TextField} label="Time" type="datetime-local" step="1" value=${target.time} required
        onChange=${(/** @type {string} */ time) => change({ time })} hint="In your zone. The first message after it comes next." />`}
      <${TextField} label="Partition" mono value=${target.partition} onChange=${(/** @type {string} */ partition) => change({ partition })}
        required=${target.to === "seq"} hint=${target.to === "seq" ? "The partition that has the message." : "Empty: all partitions of the queue."} />
      ${target.to === "seq" && html`<${TextField} label="Number of the message (seq)" type="number" min="0" value=${target.seq} required
        onChange=${(/** @type {string} */ seq) => change({ seq })} hint="It comes next." />`}
      <${Preview} of=${preview} />
      <p class="field-hint">Leases end, and acks under them are refused. Failed messages begin anew.</p>
      ${Boolean(error) && html`<p class="form-error" role="alert">${sentence(error)}</p>`}
      <footer class="dialog-footer">
        <${Button} onClick=${onClose}>Cancel</${Button}>
        <${Button} kind="danger" type="submit" isBusy=${isBusy} disabled=${!body || preview.data === null}>Move group</${Button}>
      </footer>
    </form>
  </${Dialog}>`;
}

/**
 * @param {string} group
 * @param {string} queue
 * @param {Target} target
 */
function usePreview(group, queue, target) {
  const [state, setState] = useState(/** @type {{data: SeekPreview | null, error: unknown}} */ ({ data: null, error: null }));
  useEffect(() => {
    setState({ data: null, error: null });
    const body = seekBody(target);
    if (!body) return undefined;
    const left = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const data = await get(path`/api/v1/consumer-groups/${group}/queues/${queue}/seek-preview`,
          { ...body, partition: target.partition }, { signal: left.signal });
        setState({ data: /** @type {SeekPreview} */ (data), error: null });
      } catch (error) {
        if (!left.signal.aborted) setState({ data: null, error });
      }
    }, PAUSE_MS);
    return () => {
      clearTimeout(timer);
      left.abort();
    };
  }, [group, queue, target]);
  return state;
}

/** @param {{of: {data: SeekPreview | null, error: unknown}}} props */
function Preview({ of: { data, error } }) {
  return html`<div class="preview" role="status">
    ${error
      ? html`<p class="form-error">${sentence(error)}</p>`
      : data
        ? html`<p><strong>${count(data.messagesAgain)}</strong> come again</p>
            <p><strong>${count(data.messagesSkipped)}</strong> are skipped</p>
            <p class="muted">in ${plural(data.partitions, "partition")}</p>`
        : html`<p class="muted">Say where to, and this counts what comes again and what is skipped.</p>`}
  </div>`;
}
