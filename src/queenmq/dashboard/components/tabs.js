/**
 * Tabs that are links, so that each has a URL of its own.
 */
import { visible } from "../lib/format.js";
import { html } from "../lib/ui.js";

/** @param {{tabs: {id: string, label: string, href: string, count?: string}[], active: string, label: string}} props */
export function Tabs({ tabs, active, label }) {
  return html`<nav class="tabs" aria-label=${label}>
    ${tabs.map((tab) => html`<a key=${tab.id} href=${tab.href} class="tab" aria-current=${tab.id === active ? "page" : undefined}>
      ${visible(tab.label)}${tab.count !== undefined && html`<span class="tab-count">${tab.count}</span>`}
    </a>`)}
  </nav>`;
}
