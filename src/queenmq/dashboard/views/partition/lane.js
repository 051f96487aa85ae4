/**
 * A partition as a picture: its messages in a row and, below, where each group is, what it holds and where it fails.
 */
import { count, plural } from "../../lib/format.js";
import { go, link } from "../../lib/router.js";
import { classes, html } from "../../lib/ui.js";
import { groupLabel } from "../../lib/groups.js";
import { cellsOf } from "./window.js";

/**
 * @typedef {import("./window.js").PartitionDetail} PartitionDetail
 * @typedef {import("./window.js").PartitionCursor} PartitionCursor
 * @typedef {import("./window.js").Cell} Cell
 * @typedef {import("./window.js").Range} Range
 */

const CELL = 26;
const GUTTER = 128;
const TOP = 58;
const TRACK = 34;
/** Groups that are drawn. The table below the picture has them all. */
export const GROUPS_DRAWN = 8;
const NAME_MAX = 17;
/** Messages from which on the picture takes the width there is; fewer keep their size. */
const LONG = 24;

/** @param {string} text */
const clip = (text) => (text.length > NAME_MAX ? `${text.slice(0, NAME_MAX - 1)}…` : text);

/**
 * @param {{place: PartitionDetail, range: Range, messages: import("./window.js").MessageSummary[] | null, focus: string | null}} props
 */
export function Lane({ place, range, messages, focus }) {
  const cells = cellsOf(range, messages);
  const groups = place.groups.slice(0, GROUPS_DRAWN);
  const width = GUTTER + cells.length * CELL + 8;
  const height = TOP + CELL + 14 + groups.length * TRACK;
  return html`<div class="lane-scroll" tabindex="0" role="region" aria-label="Picture of the partition">
    <svg class=${classes("lane", cells.length > LONG && "lane-long")} width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${describe(place, range)}>
      <${Minimap} place=${place} range=${range} width=${cells.length * CELL} />
      ${cells.map((cell) => html`<${Message} key=${cell.seq} cell=${cell} x=${GUTTER + (cell.seq - range.low) * CELL} />`)}
      ${groups.map((one, index) => html`<${Track} key=${one.consumerGroup} cursor=${one} range=${range}
        y=${TOP + CELL + 12 + index * TRACK} isFocus=${one.consumerGroup === focus} />`)}
    </svg>
  </div>`;
}

/** The picture in words. @param {PartitionDetail} place @param {Range} range */
function describe(place, { low, high }) {
  const where = place.groups.slice(0, GROUPS_DRAWN).map((one) => {
    const lease = one.leasedUntil && one.leaseEndSeq ? `, holds up to ${one.leaseEndSeq}` : "";
    const blocked = one.blockedSeq !== null ? `, blocked at ${one.blockedSeq}` : "";
    return `${groupLabel(one.consumerGroup)} has passed ${one.cursorSeq}${lease}${blocked}.`;
  });
  return `Messages ${low} to ${high} of ${place.firstSeq} to ${place.lastSeq}. ${where.join(" ")}`;
}

/** The whole partition in small, with the drawn part and the cursors. @param {{place: PartitionDetail, range: Range, width: number}} props */
function Minimap({ place, range, width }) {
  const all = Math.max(1, place.lastSeq - place.firstSeq + 1);
  const at = (/** @type {number} */ seq) => GUTTER + Math.max(0, Math.min(1, (seq - place.firstSeq) / all)) * width;
  return html`<g class="lane-map">
    <text class="lane-label" x="0" y="13">${clip(`${count(all)} in all`)}</text>
    <rect class="lane-map-all" x=${GUTTER} y="4" width=${width} height="10" rx="5" />
    <rect class="lane-map-window" x=${at(range.low)} y="2" width=${Math.max(6, at(range.high + 1) - at(range.low))} height="14" rx="5" />
    ${place.groups.slice(0, GROUPS_DRAWN).map((one) => html`<line key=${one.consumerGroup} class="lane-map-cursor"
      x1=${at(one.cursorSeq + 1)} x2=${at(one.cursorSeq + 1)} y1="1" y2="17" />`)}
    <text class="lane-label" x="0" y=${TOP + 17}>Messages</text>
  </g>`;
}

const STATES = { pending: "pending", processing: "under lease", completed: "consumed", dead_letter: "dead letter", removed: "removed", unknown: "loading" };

/** @param {{cell: Cell, x: number}} props */
function Message({ cell: { seq, state, message }, x }) {
  const open = message && (() => go(link("messages", message.partitionId, message.transactionId)));
  const title = `${count(seq)}: ${STATES[/** @type {keyof typeof STATES} */ (state)] ?? state}${message ? `, ${message.transactionId}` : ""}`;
  return html`<g class=${`lane-cell lane-${state}`} onClick=${open}>
    <title>${title}</title>
    ${seq % 5 === 0 && html`<text class="lane-seq" x=${x + CELL / 2} y=${TOP - 8} text-anchor="middle">${count(seq)}</text>`}
    <rect x=${x + 1.5} y=${TOP} width=${CELL - 3} height=${CELL} rx="5" />
    ${state === "dead_letter" && html`<path class="lane-cross" d=${`M${x + 9} ${TOP + 9}l8 8m0 -8l-8 8`} />`}
    ${state === "completed" && html`<path class="lane-check" d=${`M${x + 8} ${TOP + 13}l4 4l7 -8`} />`}
  </g>`;
}

/** @param {{cursor: PartitionCursor, range: Range, y: number, isFocus: boolean}} props */
function Track({ cursor, range, y, isFocus }) {
  const at = (/** @type {number} */ seq) => GUTTER + Math.max(0, Math.min(range.high - range.low + 1, seq - range.low)) * CELL;
  const { consumerGroup, cursorSeq, leaseEndSeq, leasedUntil, blockedSeq, retrySeq, retryCount } = cursor;
  const [start, end] = [at(range.low), at(range.high + 1)];
  const here = at(cursorSeq + 1);
  const middle = y + 12;
  const isIn = (/** @type {number | null} */ seq) => seq !== null && seq >= range.low && seq <= range.high;
  const holdsHere = leasedUntil && leaseEndSeq !== null && leaseEndSeq >= range.low && cursorSeq < range.high;
  return html`<g class=${isFocus ? "lane-track lane-track-focus" : "lane-track"}>
    <text class="lane-label" x="0" y=${middle + 4}>${clip(groupLabel(consumerGroup))}<title>${groupLabel(consumerGroup)}</title></text>
    <line class="lane-ahead" x1=${start} x2=${end} y1=${middle} y2=${middle} />
    <line class="lane-passed" x1=${start} x2=${here} y1=${middle} y2=${middle} />
    ${holdsHere && html`<rect class="lane-lease" x=${here} y=${middle - 8} width=${Math.max(4, at(Number(leaseEndSeq) + 1) - here)} height="16" rx="5">
      <title>under lease up to ${count(leaseEndSeq)}</title></rect>`}
    ${retryCount > 0 && isIn(retrySeq) && html`<g class="lane-retry"><title>${plural(retryCount, "failed attempt")}</title>
      <circle cx=${at(Number(retrySeq)) + CELL / 2} cy=${middle} r="8" />
      <text x=${at(Number(retrySeq)) + CELL / 2} y=${middle + 4} text-anchor="middle">${retryCount}</text></g>`}
    ${blockedSeq !== null && isIn(blockedSeq) && html`<g class="lane-blocked"><title>blocked at ${count(blockedSeq)}</title>
      <circle cx=${at(blockedSeq) + CELL / 2} cy=${middle} r="8" />
      <path d=${`M${at(blockedSeq) + CELL / 2 - 3.5} ${middle - 3.5}l7 7m0 -7l-7 7`} /></g>`}
    <path class="lane-cursor" d=${`M${here} ${middle - 11}v22`} />
    ${cursorSeq + 1 < range.low && html`<text class="lane-far" x=${start + 6} y=${middle - 6}>← ${count(range.low - cursorSeq - 1)} before</text>`}
    ${cursorSeq > range.high && html`<text class="lane-far" x=${end - 6} y=${middle - 6} text-anchor="end">${count(cursorSeq - range.high)} further →</text>`}
  </g>`;
}

const LEGEND = [
  ["completed", "consumed by all groups"], ["pending", "pending"], ["processing", "under lease"], ["dead_letter", "dead letter"], ["removed", "removed"],
];

export function LaneLegend() {
  return html`<ul class="legend lane-legend">
    ${LEGEND.map(([state, label]) => html`<li key=${state}><span class=${`lane-swatch lane-swatch-${state}`} aria-hidden="true"></span>${label}</li>`)}
    <li><span class="lane-swatch lane-swatch-cursor" aria-hidden="true"></span>cursor of a group</li>
  </ul>`;
}
