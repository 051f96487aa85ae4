/** The name and sign of the product. */
import { html } from "../lib/ui.js";

export function Logo() {
  return html`<span class="logo">
    <svg viewBox="0 0 32 32" width="26" height="26" aria-hidden="true">
      <rect class="logo-ground" width="32" height="32" rx="8" />
      <path class="logo-crown" d="M7 11.5l4.6 4L16 8.5l4.4 7 4.6-4-1.9 11H8.9z" />
    </svg>
    <span>Queen</span>
  </span>`;
}
