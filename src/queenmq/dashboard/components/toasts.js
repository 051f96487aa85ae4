/**
 * Short notes about what was done. Errors stay until they are closed; a screen reader hears each.
 */
import { observable, useValue } from "../lib/store.js";
import { html } from "../lib/ui.js";
import { Icon } from "./icons.js";

const SHOWN_MS = 5_000;

/** @typedef {{id: number, text: string, tone: "good" | "warning" | "danger" | "neutral"}} Toast */

const toasts = observable(/** @type {Toast[]} */ ([]));
let lastId = 0;

/** @param {string} text @param {Toast["tone"]} [tone] */
export function toast(text, tone = "neutral") {
  const id = ++lastId;
  toasts.set([...toasts.get().slice(-3), { id, text, tone }]);
  if (tone !== "danger") setTimeout(() => dismiss(id), SHOWN_MS);
}

/** @param {number} id */
function dismiss(id) {
  toasts.set(toasts.get().filter((one) => one.id !== id));
}

export function Toasts() {
  const shown = useValue(toasts);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${shown.map((one) => html`<div key=${one.id} class=${`toast toast-${one.tone}`}>
      <span>${one.text}</span>
      <button type="button" class="button button-quiet button-icon" aria-label="Close" onClick=${() => dismiss(one.id)}>
        <${Icon} name="close" size="16" />
      </button>
    </div>`)}
  </div>`;
}
