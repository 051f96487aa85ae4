/**
 * Controls that views share: the time range and the theme.
 */
import { RANGES, THEMES, range, theme, useValue } from "../lib/store.js";
import { html } from "../lib/ui.js";
import { Icon } from "./icons.js";

/** @type {import("../lib/store.js").RangeName[]} */
const ORDER = ["15m", "1h", "6h", "24h", "7d"];

export function RangePicker() {
  const chosen = useValue(range);
  return html`<div class="segments" role="group" aria-label="Time range">
    ${ORDER.map((name) => html`<button key=${name} type="button" aria-pressed=${name === chosen}
      title=${`The last ${RANGES[name].label}`} onClick=${() => range.set(name)}>${name}</button>`)}
  </div>`;
}

const ICONS = { system: "screen", light: "sun", dark: "moon" };

export function ThemeSwitch() {
  const chosen = useValue(theme);
  return html`<div class="segments segments-icons" role="group" aria-label="Theme">
    ${THEMES.map((name) => html`<button key=${name} type="button" aria-pressed=${name === chosen} aria-label=${`${name} theme`}
      title=${`${name} theme`} onClick=${() => theme.set(name)}><${Icon} name=${ICONS[name]} size="16" /></button>`)}
  </div>`;
}
