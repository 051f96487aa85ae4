/**
 * Entry point: applies the theme, then mounts the shell.
 */
import { App } from "./components/shell.js";
import { applyTheme } from "./lib/store.js";
import { html, render } from "./lib/ui.js";

applyTheme();
const root = document.getElementById("app");
if (root) {
  root.replaceChildren();
  render(html`<${App} />`, root);
}
