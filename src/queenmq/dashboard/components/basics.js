/**
 * The smallest parts: buttons, badges, times, text to copy.
 */
import { ago, localTime } from "../lib/format.js";
import { observable, useValue } from "../lib/store.js";
import { classes, html } from "../lib/ui.js";
import { Icon } from "./icons.js";
import { toast } from "./toasts.js";

/** @typedef {"neutral" | "good" | "warning" | "danger" | "accent"} Tone */

/**
 * @param {{kind?: "primary" | "plain" | "danger" | "quiet", icon?: string, label?: string, isBusy?: boolean,
 *   disabled?: boolean, title?: string, type?: "button" | "submit", onClick?: (event: Event) => void, children?: unknown,
 *   [name: string]: unknown}} props
 * `label` is the accessible name of a button that shows its icon alone.
 */
export function Button({ kind = "plain", icon, label, isBusy = false, disabled = false, type = "button", children, ...rest }) {
  return html`<button type=${type} class=${classes("button", `button-${kind}`, !children && "button-icon")}
    aria-label=${label} title=${rest.title ?? label} aria-busy=${isBusy} disabled=${disabled || isBusy} ...${rest}>
    ${isBusy ? html`<span class="spinner" aria-hidden="true"></span>` : icon && html`<${Icon} name=${icon} />`}
    ${children && html`<span>${children}</span>`}
  </button>`;
}

/** State in a word. Colour is never the only sign. @param {{tone?: Tone, children?: unknown, title?: string}} props */
export function Badge({ tone = "neutral", children, title }) {
  return html`<span class=${`badge badge-${tone}`} title=${title}><span class="badge-dot" aria-hidden="true"></span>${children}</span>`;
}

/** One clock for all relative times, so that a table of them costs one timer. */
const tick = observable(Date.now());
setInterval(() => void (document.hidden || tick.set(Date.now())), 5_000);

/**
 * A time in the reader's zone; the exact one is in `title`. `relative` shows how long ago.
 * @param {{at: string | null | undefined, relative?: boolean}} props
 */
export function Time({ at, relative = false }) {
  const nowMs = useValue(tick);
  if (!at) return html`<span class="muted">–</span>`;
  const shown = relative ? ago(at, Math.max(nowMs, Date.now() - 5_000)) : localTime(at);
  return html`<time datetime=${at} title=${at}>${shown}</time>`;
}

/** @param {{text: string, what?: string}} props */
export function CopyButton({ text, what = "text" }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      toast(`Copied the ${what}.`, "good");
    } catch {
      toast("The browser does not allow copying here. Select the text instead.", "warning");
    }
  };
  return html`<${Button} kind="quiet" icon="copy" label=${`Copy the ${what}`} onClick=${copy} />`;
}

/** A label and its value, for lists of facts. @param {{label: string, children?: unknown}} props */
export function Fact({ label, children }) {
  return html`<div class="fact"><dt>${label}</dt><dd>${children}</dd></div>`;
}
