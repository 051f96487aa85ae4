/**
 * Messages as lanes over time: where each was pushed, what happened to it, and which came from it.
 */
import { duration, localTime, visible } from "../lib/format.js";
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

/** The mark of each kind of step, around its centre: a shape of its own beside the colour. @type {Record<import("../lib/story.js").Kind, string>} */
const SHAPES = {
  push: "M-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0Z",
  deliver: "M-4.5 -6L6 0L-4.5 6Z",
  ack: "M-5 -5H5V5H-5Z",
  note: "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z",
  fault: "M0 -6.5L6.5 0L0 6.5L-6.5 0Z",
};
/** @type {[import("../lib/story.js").Kind, string][]} */
const LEGEND = [["push", "pushed"], ["deliver", "delivered"], ["ack", "acked"], ["note", "note of a consumer"], ["fault", "trouble"]];

/** @param {{lanes: Lane[], chosen?: string}} props `chosen`: the transaction id of the lane to mark. */
export function Timeline({ lanes, chosen }) {
  const times = lanes.flatMap((lane) => lane.steps.map((step) => step.at));
  const [from, to] = [Math.min(...times), Math.max(...times)];
  if (times.length === 0) return null;
  return html`<div class="timeline">
    <div class="timeline-axis" aria-hidden="true">
      <span>${localTime(from)}</span><span class="muted">${duration((to - from) / 1000)}</span><span>${localTime(to)}</span>
    </div>
    <ol>${lanes.map((lane, index) => html`<li key=${lane.partitionId + lane.transactionId} class=${lane.transactionId === chosen ? "story-lane story-chosen" : "story-lane"}>
      <div class="story-name">
        <a class="strong name" href=${link("queues", lane.queue)}>${visible(lane.queue)}</a>
        <${Badge} tone=${toneOf(lane.state)}>${lane.state}</${Badge}>
        <span class="muted sub"><a class="name mono" href=${link("traces", "message", lane.partitionId, lane.transactionId)}>${visible(lane.transactionId)}</a> in ${lane.partition}</span>
      </div>
      <${Track} lane=${lane} from=${from} to=${to} previous=${lanes[index - 1]} />
    </li>`)}</ol>
    <ul class="legend">${LEGEND.map(([kind, label]) => html`<li key=${kind}><svg class="mark" viewBox="-8 -8 16 16" aria-hidden="true"><path class=${`mark-${kind}`} d=${SHAPES[kind]} /></svg>${label}</li>`)}</ul>
    ${[...new Set(lanes.map((lane) => lane.unknown).filter(Boolean))].map((text) => html`<p key=${text} class="muted timeline-note">${text}</p>`)}
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
    ${lane.steps.map((step, index) => html`<svg key=${index} class="track-mark" x=${at(step.at)} y=${HEIGHT / 2} width="1" height="1">
      <path class=${`mark-${step.kind}`} d=${SHAPES[step.kind]}><title>${`${step.label}, ${localTime(step.at)}`}</title></path>
    </svg>`)}
  </svg>`;
}
