/**
 * Shows a payload as a tree or raw. Everything is text; nothing of a payload becomes markup.
 */
import { isRawNumber } from "../lib/json.js";
import { useState, html } from "../lib/ui.js";
import { CopyButton } from "./basics.js";

/** Children of one node that are drawn at once; a payload may hold thousands. */
const PAGE = 100;

/** @param {{value: unknown, label?: string}} props */
export function Payload({ value, label = "payload" }) {
  const [isRaw, setRaw] = useState(false);
  const text = JSON.stringify(value, null, 2) ?? "undefined";
  return html`<div class="payload">
    <div class="payload-bar">
      <div class="segments" role="group" aria-label=${`How to show the ${label}`}>
        <button type="button" aria-pressed=${!isRaw} onClick=${() => setRaw(false)}>Tree</button>
        <button type="button" aria-pressed=${isRaw} onClick=${() => setRaw(true)}>Raw</button>
      </div>
      <${CopyButton} text=${text} what=${label} />
    </div>
    ${isRaw
      ? html`<pre class="payload-raw" tabindex="0" aria-label=${label}>${text}</pre>`
      : html`<div class="payload-tree" tabindex="0" role="group" aria-label=${label}><${Node} value=${value} depth=${0} /></div>`}
  </div>`;
}

/** @param {{name?: string, value: unknown, depth: number}} props */
function Node({ name, value, depth }) {
  const [shown, setShown] = useState(PAGE);
  const key = name !== undefined && html`<span class="tree-key">${name}</span>`;
  if (value === null || typeof value !== "object" || isRawNumber(value)) {
    const kind = value === null ? "null" : isRawNumber(value) ? "number" : typeof value;
    return html`<div class="tree-leaf">${key}<span class=${`tree-${kind}`}>${JSON.stringify(value)}</span></div>`;
  }
  const entries = Object.entries(value);
  const about = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  return html`<details class="tree-node" open=${depth < 2}>
    <summary>${key}<span class="muted">${about}</span></summary>
    ${entries.slice(0, shown).map(([child, inner]) => html`<${Node} key=${child} name=${child} value=${inner} depth=${depth + 1} />`)}
    ${entries.length > shown && html`<button type="button" class="button button-quiet" onClick=${() => setShown(shown + PAGE)}>
      Show ${Math.min(PAGE, entries.length - shown)} more
    </button>`}
  </details>`;
}
