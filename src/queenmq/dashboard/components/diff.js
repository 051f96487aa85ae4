/**
 * Shows how two JSON values differ, path by path. Everything is text.
 */
import { html } from "../lib/ui.js";
import { Empty } from "./page.js";

/** More differences than a person reads. */
const SHOWN_MAX = 200;
/** A payload may be deep; below this its text is compared as a whole. */
const DEPTH_MAX = 12;

/** @typedef {{path: string, left: string | null, right: string | null}} Difference null: there is no such path. */

/**
 * @param {unknown} value
 * @param {string} path
 * @param {Map<string, string>} into
 * @param {number} depth
 */
function flatten(value, path, into, depth) {
  const isOpen = value !== null && typeof value === "object" && depth < DEPTH_MAX && Object.keys(value).length > 0;
  if (!isOpen) {
    into.set(path || "(all)", JSON.stringify(value) ?? "undefined");
    return into;
  }
  for (const [name, inner] of Object.entries(/** @type {object} */ (value))) {
    flatten(inner, Array.isArray(value) ? `${path}[${name}]` : path ? `${path}.${name}` : name, into, depth + 1);
  }
  return into;
}

/**
 * Return the paths at which two values differ, in the order of the first.
 * @param {unknown} left
 * @param {unknown} right
 * @returns {Difference[]}
 */
export function differences(left, right) {
  const [one, other] = [flatten(left, "", new Map(), 0), flatten(right, "", new Map(), 0)];
  const paths = [...new Set([...one.keys(), ...other.keys()])];
  return paths
    .map((path) => ({ path, left: one.get(path) ?? null, right: other.get(path) ?? null }))
    .filter((found) => found.left !== found.right);
}

/** @param {{left: unknown, right: unknown, leftName: string, rightName: string}} props */
export function Diff({ left, right, leftName, rightName }) {
  const found = differences(left, right);
  if (found.length === 0) return html`<${Empty} title="The payloads are equal" icon="check" />`;
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label="Differences of the payloads">
    <table class="table diff">
      <thead><tr><th scope="col">Path</th><th scope="col">${leftName}</th><th scope="col">${rightName}</th></tr></thead>
      <tbody>${found.slice(0, SHOWN_MAX).map((one) => html`<tr key=${one.path}>
        <th scope="row" class="mono">${one.path}</th>
        <td><${Side} text=${one.left} kind="removed" /></td>
        <td><${Side} text=${one.right} kind="added" /></td>
      </tr>`)}</tbody>
    </table>
    ${found.length > SHOWN_MAX && html`<p class="muted diff-more">and ${found.length - SHOWN_MAX} more</p>`}
  </div>`;
}

/** @param {{text: string | null, kind: "added" | "removed"}} props */
const Side = ({ text, kind }) => (text === null ? html`<span class="muted">not there</span>` : html`<code class=${`diff-${kind}`}>${text}</code>`);
