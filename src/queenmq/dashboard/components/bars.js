/**
 * Horizontal bars: names, values, and how they compare. A list for a screen reader.
 */
import { html } from "../lib/ui.js";

/**
 * @param {{label: string, rows: {name: string, value: number, shown: string, tone?: "danger" | "warning"}[], empty?: string}} props
 */
export function Bars({ label, rows, empty = "Nothing yet." }) {
  const top = Math.max(...rows.map((row) => row.value), 0);
  if (top === 0) return html`<p class="muted">${empty}</p>`;
  return html`<ul class="bars" aria-label=${label}>
    ${rows.map((row) => html`<li key=${row.name}>
      <span class="bars-name" title=${row.name}>${row.name}</span>
      <svg class="bars-track" width="100%" height="8" aria-hidden="true">
        <rect class="bars-ground" width="100%" height="8" rx="4" />
        <rect class=${`bars-fill ${row.tone ? `bars-${row.tone}` : ""}`} width=${`${((100 * row.value) / top).toFixed(2)}%`} height="8" rx="4" />
      </svg>
      <strong>${row.shown}</strong>
    </li>`)}
  </ul>`;
}
