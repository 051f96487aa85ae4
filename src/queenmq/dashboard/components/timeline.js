/**
 * Messages as lanes over time: where each was pushed, what happened to it, and which came from it.
 */
import { duration, localTime } from "../lib/format.js";
import { link } from "../lib/router.js";
import { html } from "../lib/ui.js";
import { Badge } from "./basics.js";

/**
 * @typedef {import("../lib/story.js").Lane} Lane
 * @typedef {import("../lib/story.js").Step} Step
 */

const HEIGHT = 34;
/** Room at both ends, so that marks are not cut. In percent. */
const MARGIN = 2;

/**
 * Return where on the axis a time stands, in percent.
 * @param {number} at
 * @param {number} from
 * @param {number} to
 */
export function place(at, from, to) {
  const share = to > from ? (at - from) / (to - from) : 0;
  return MARGIN + share * (100 - 2 * MARGIN);
}

/** @param {{lanes: Lane[], chosen?: string}} props `chosen`: the transaction id of the lane to mark. */
export function Timeline({ lanes, chosen }) {
  const times = lanes.flatMap((lane) => lane.steps.map((step) => step.at));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  if (times.length === 0) return null;
  return html`<div class="timeline">
    <div class="timeline-axis" aria-hidden="true">
      <span>${localTime(from)}</span><span class="muted">${duration((to - from) / 1000)}</span><span>${localTime(to)}</span>
    </div>
    <ol>${lanes.map((lane, index) => html`<li key=${lane.partitionId + lane.transactionId} class=${lane.transactionId === chosen ? "lane lane-chosen" : "lane"}>
      <div class="lane-name">
        <a class="strong name" href=${link("queues", lane.queue)}>${lane.queue}</a>
        <${Badge} tone=${toneOf(lane.state)}>${lane.state}</${Badge}>
        <span class="muted sub"><a class="name mono" href=${link("traces", "message", lane.partitionId, lane.transactionId)}>${lane.transactionId}</a> in ${lane.partition}</span>
      </div>
      <${Track} lane=${lane} from=${from} to=${to} previous=${lanes[index - 1]} />
    </li>`)}</ol>
    <ul class="legend">
      <li><span class="mark mark-push" aria-hidden="true"></span>pushed</li>
      <li><span class="mark mark-note" aria-hidden="true"></span>note of a consumer</li>
      <li><span class="mark mark-fault" aria-hidden="true"></span>trouble</li>
    </ul>
  </div>`;
}

/** @param {string} state @returns {import("./basics.js").Tone} */
function toneOf(state) {
  if (state.startsWith("dead")) return "danger";
  if (state.startsWith("acked")) return "good";
  return state === "under lease" ? "accent" : "neutral";
}

/** @param {{lane: Lane, from: number, to: number, previous?: Lane}} props */
function Track({ lane, from, to, previous }) {
  const first = lane.steps[0];
  const last = lane.steps.at(-1);
  const at = (/** @type {number} */ time) => `${place(time, from, to).toFixed(2)}%`;
  const label = `${lane.queue}: ${lane.steps.map((step) => `${step.label} at ${localTime(step.at)}`).join(", ")}`;
  return html`<svg class="track" width="100%" height=${HEIGHT} role="img" aria-label=${label}>
    <line class="track-ground" x1="0" x2="100%" y1=${HEIGHT / 2} y2=${HEIGHT / 2} />
    ${previous && first && html`<line class="track-drop" x1=${at(first.at)} x2=${at(first.at)} y1="0" y2=${HEIGHT / 2} />`}
    ${first && last && html`<line class="track-life" x1=${at(first.at)} x2=${at(last.at)} y1=${HEIGHT / 2} y2=${HEIGHT / 2} />`}
    ${lane.steps.map((step, index) => html`<circle key=${index} class=${`mark-${step.kind}`} cx=${at(step.at)} cy=${HEIGHT / 2} r=${step.kind === "push" ? 6 : 5}>
      <title>${`${step.label}, ${localTime(step.at)}`}</title>
    </circle>`)}
  </svg>`;
}
