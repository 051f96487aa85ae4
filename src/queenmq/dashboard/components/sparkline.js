/**
 * A small line without axes, as SVG. Gaps stay gaps.
 */
import { html } from "../lib/ui.js";

const WIDTH = 120;
const HEIGHT = 28;

/**
 * Return the path of the known values, and of the area below them.
 * @param {(number | null)[]} values
 */
export function sparkPath(values) {
  const known = values.filter((value) => value !== null);
  const top = Math.max(...known, 0) || 1;
  const step = values.length > 1 ? WIDTH / (values.length - 1) : WIDTH;
  let line = "";
  let isDrawing = false;
  values.forEach((value, index) => {
    if (value === null) {
      isDrawing = false;
      return;
    }
    const at = `${(index * step).toFixed(1)} ${(HEIGHT - 2 - (value / top) * (HEIGHT - 4)).toFixed(1)}`;
    line += `${isDrawing ? "L" : "M"}${at}`;
    isDrawing = true;
  });
  return line;
}

/** @param {{values: (number | null)[], label: string}} props */
export function Sparkline({ values, label }) {
  if (values.filter((value) => value !== null).length < 2) return html`<span class="spark-none" aria-hidden="true"></span>`;
  const line = sparkPath(values);
  const isWhole = !values.includes(null);
  return html`<svg class="spark" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label=${label}>
    ${isWhole && html`<path class="spark-area" d=${`${line}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z`} />`}
    <path class="spark-line" d=${line} vector-effect="non-scaling-stroke" />
  </svg>`;
}
