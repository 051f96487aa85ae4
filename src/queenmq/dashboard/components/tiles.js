/**
 * Numbers to read at a glance.
 */
import { html } from "../lib/ui.js";
import { Sparkline } from "./sparkline.js";

/**
 * @param {{label: string, value: unknown, unit?: string, note?: unknown, tone?: import("./basics.js").Tone,
 *   trend?: (number | null)[], href?: string, title?: string}} props
 */
export function Tile({ label, value, unit, note, tone = "neutral", trend, href, title }) {
  const body = html`
    <span class="tile-label">${label}</span>
    <span class="tile-value">${value}${unit && html`<small>${unit}</small>`}</span>
    <span class="tile-note">${note ?? ""}</span>
    ${trend && html`<${Sparkline} values=${trend} label=${`${label} over time`} />`}`;
  return href
    ? html`<a class=${`tile tile-${tone}`} href=${href} title=${title}>${body}</a>`
    : html`<div class=${`tile tile-${tone}`} title=${title}>${body}</div>`;
}

/** @param {{children?: unknown}} props */
export const Tiles = ({ children }) => html`<div class="tiles">${children}</div>`;
