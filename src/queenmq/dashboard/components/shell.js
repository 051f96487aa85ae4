/**
 * The frame around every view: navigation, session, connection, keys.
 */
import { loadSession, logout } from "../lib/api.js";
import { ApiError, sentence } from "../lib/errors.js";
import { useKeys } from "../lib/keys.js";
import { useResource } from "../lib/poll.js";
import { go, link, location, match } from "../lib/router.js";
import { connection, session, useValue } from "../lib/store.js";
import { useCallback, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState, html } from "../lib/ui.js";
import { Login } from "../views/login.js";
import { VIEWS } from "../views/registry.js";
import { Button } from "./basics.js";
import { ThemeSwitch } from "./controls.js";
import { Dialog } from "./dialog.js";
import { Icon } from "./icons.js";
import { Logo } from "./logo.js";
import { Empty, ErrorNote, Loading } from "./page.js";
import { focusSearch } from "./search.js";
import { Toasts, toast } from "./toasts.js";

export function App() {
  const { state } = useValue(session);
  const start = useResource(() => loadSession(), { inputs: [state === "out"] });
  if (state === "out") return html`<${Login} /><${Toasts} />`;
  if (state === "unknown") {
    const isTrouble = start.error && !(start.error instanceof ApiError && start.error.kind === "login");
    return html`<main class="boot">${isTrouble
      ? html`<${ErrorNote} error=${start.error} onRetry=${start.reload} />`
      : html`<${Loading} what="the dashboard" />`}</main>`;
  }
  return html`<${Frame} />`;
}

const NAV = VIEWS.filter((view) => view.nav);
const GROUPS = [...new Set(NAV.map((view) => view.nav?.group ?? ""))];

function Frame() {
  const here = useValue(location);
  const [isHelp, setHelp] = useState(false);
  const onHelp = useCallback(() => setHelp(true), []);
  const places = useMemo(
    () => Object.fromEntries(NAV.map((view) => [view.nav?.key ?? "", () => go(`#${view.path}`)])),
    [],
  );
  useKeys({ places, onSearch: focusSearch, onHelp });
  const found = VIEWS.map((view) => ({ view, params: match(view.path, here.parts) })).find((one) => one.params);
  const main = useRef(/** @type {HTMLElement | null} */ (null));
  const isFirst = useRef(true);
  useLayoutEffect(() => {
    // A screen reader starts at the new page's heading, as after a page load. Before the page is painted: later, the
    // focus would be taken from what was clicked or typed into meanwhile.
    if (!isFirst.current) main.current?.querySelector("h1")?.focus();
    isFirst.current = false;
    globalThis.scrollTo(0, 0);
  }, [here.path]);
  return html`<div class="frame">
    <a class="skip" href="#main" onClick=${(/** @type {Event} */ event) => {
      event.preventDefault();
      main.current?.focus();
    }}>Skip to content</a>
    <${Navigation} active=${found?.view.under ?? found?.view.path ?? ""} onHelp=${onHelp} />
    <div class="content">
      <${ConnectionBanner} />
      <main id="main" ref=${main} tabindex="-1">
        ${found
          ? html`<${Guarded} key=${here.path} view=${found.view} params=${found.params} query=${here.query} />`
          : html`<h1 class="visually-hidden" tabindex="-1">Not found</h1><${Empty} title="There is no such page" icon="help">
              <a href=${link()}>Go to the overview</a>
            </${Empty}>`}
      </main>
    </div>
    ${isHelp && html`<${Help} onClose=${() => setHelp(false)} />`}
    <${Toasts} />
  </div>`;
}

/**
 * A view that fails takes nothing else with it.
 * @param {{view: import("../views/registry.js").View, params: Record<string, string>, query: Record<string, string>}} props
 */
function Guarded({ view, params, query }) {
  const [error, reset] = useErrorBoundary((failure) => console.error(failure));
  if (error) return html`<${ErrorNote} error=${new Error(`This page broke: ${sentence(error)}`)} onRetry=${reset} />`;
  return html`<${view.component} params=${params} query=${query} />`;
}

/** @param {{active: string, onHelp: () => void}} props */
function Navigation({ active, onHelp }) {
  const { me } = useValue(session);
  return html`<aside class="side">
    <a class="brand" href=${link()} aria-label="Queen, overview"><${Logo} /></a>
    <nav class="nav" aria-label="Main">
      ${GROUPS.map((group) => html`<div class="nav-group" key=${group}>
        <span class="nav-heading">${group}</span>
        ${NAV.filter((view) => view.nav?.group === group).map((view) => html`<a key=${view.path} href=${`#${view.path}`}
          class="nav-item" aria-current=${view.path === active ? "page" : undefined} title=${`${view.nav?.label} (g ${view.nav?.key})`}>
          <${Icon} name=${view.nav?.icon ?? ""} /><span>${view.nav?.label}</span>
        </a>`)}
      </div>`)}
    </nav>
    <div class="side-foot">
      <${ThemeSwitch} />
      <${Button} kind="quiet" icon="help" label="Keyboard shortcuts" onClick=${onHelp} />
      ${me?.kind === "session" && html`<${Button} kind="quiet" icon="logout" label="Log out"
        onClick=${() => logout().catch((error) => toast(sentence(error), "danger"))} />`}
      ${me?.subject && html`<span class="who" title=${`${me.subject}, ${me.role ?? "no role"}`}>${me.subject}<small>${me.role}</small></span>`}
    </div>
  </aside>`;
}

function ConnectionBanner() {
  const { isLost, sinceMs } = useValue(connection);
  return html`<div role="status" aria-live="polite">
    ${isLost && html`<p class="banner">
      <span class="spinner" aria-hidden="true"></span>
      The broker has not answered since ${new Date(sinceMs).toLocaleTimeString()}. Trying again.
    </p>`}
  </div>`;
}

/** @param {{onClose: () => void}} props */
function Help({ onClose }) {
  const rows = [["/", "Search on this page"], ["?", "Show these keys"], ["Esc", "Close a dialog"],
    ...NAV.map((view) => [`g ${view.nav?.key}`, `Go to ${view.nav?.label}`])];
  return html`<${Dialog} title="Keyboard shortcuts" onClose=${onClose}>
    <dl class="shortcuts">${rows.map(([keys, text]) => html`<div key=${keys}>
      <dt>${keys?.split(" ").map((key) => html`<kbd key=${key}>${key}</kbd>`)}</dt><dd>${text}</dd>
    </div>`)}</dl>
  </${Dialog}>`;
}
