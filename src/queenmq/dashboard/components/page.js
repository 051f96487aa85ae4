/**
 * The frame of a view: header, cards, and what stands there while there is nothing to show.
 */
import { ApiError, sentence } from "../lib/errors.js";
import { visible } from "../lib/format.js";
import { useEffect, html } from "../lib/ui.js";
import { Button } from "./basics.js";
import { Icon } from "./icons.js";

/**
 * @param {{title: string, crumbs?: {label: string, href: string}[], note?: unknown, children?: unknown}} props
 * `children` are the actions on the right.
 */
export function PageHeader({ title, crumbs = [], note, children }) {
  useEffect(() => {
    document.title = `${visible(title)} · Queen`;
  }, [title]);
  return html`<header class="page-header">
    <div class="page-heading">
      ${crumbs.length > 0 && html`<nav class="crumbs" aria-label="Breadcrumb">
        ${crumbs.map((one) => html`<a key=${one.href} href=${one.href}>${visible(one.label)}</a><span aria-hidden="true">/</span>`)}
      </nav>`}
      <h1 tabindex="-1">${visible(title)}</h1>
      ${note && html`<p class="page-note">${note}</p>`}
    </div>
    <div class="page-actions">${children}</div>
  </header>`;
}

/** @param {{title?: string, note?: unknown, actions?: unknown, flush?: boolean, children?: unknown}} props */
export function Card({ title, note, actions, flush = false, children }) {
  return html`<section class=${flush ? "card card-flush" : "card"} aria-label=${title}>
    ${title && html`<header class="card-header">
      <h2>${title}</h2>
      ${note && html`<span class="muted card-note">${note}</span>`}
      <div class="card-actions">${actions}</div>
    </header>`}
    <div class="card-body">${children}</div>
  </section>`;
}

/** @param {{what?: string}} props */
export function Loading({ what = "data" }) {
  return html`<div class="state" role="status"><span class="spinner" aria-hidden="true"></span>Loading ${what}</div>`;
}

/**
 * @param {{title: string, icon?: string, children?: unknown}} props
 */
export function Empty({ title, icon = "queues", children }) {
  return html`<div class="state state-empty">
    <span class="state-icon"><${Icon} name=${icon} size="22" /></span>
    <strong>${title}</strong>
    ${children && html`<p>${children}</p>`}
  </div>`;
}

/** An error as an error, with what to do. @param {{error: unknown, onRetry?: () => void}} props */
export function ErrorNote({ error, onRetry }) {
  const facts = error instanceof ApiError ? error : null;
  const hints = {
    forbidden: "Log in with a token that may read this.",
    lost: "The page tries again by itself.",
    busy: "The page tries again by itself.",
  };
  const hint = hints[/** @type {keyof typeof hints} */ (facts?.kind ?? "")];
  return html`<div class="state state-error" role="alert">
    <span class="state-icon"><${Icon} name="dead" size="22" /></span>
    <strong>${sentence(error)}</strong>
    ${hint && html`<p>${hint}</p>`}
    ${facts?.errorId && html`<p class="muted">Error id in the broker's log: <code>${facts.errorId}</code></p>`}
    ${onRetry && html`<${Button} icon="refresh" onClick=${onRetry}>Try again</${Button}>`}
  </div>`;
}

/**
 * Show a resource in each of its states. Old data stays visible under a note while requests fail.
 * @template T
 * @param {{of: import("../lib/poll.js").Resource<T>, what?: string, children: (data: T) => unknown}} props
 */
export function Show({ of: resource, what, children }) {
  const { data, error, isLoading, reload } = resource;
  if (data === null) {
    if (error) return html`<${ErrorNote} error=${error} onRetry=${reload} />`;
    return isLoading ? html`<${Loading} what=${what} />` : null;
  }
  return html`${Boolean(error) && html`<${StaleNote} error=${error} at=${resource.at} />`}${children(data)}`;
}

/** @param {{error: unknown, at: number}} props */
function StaleNote({ error, at }) {
  return html`<p class="stale" role="status">
    ${sentence(error)} These numbers are from ${new Date(at).toLocaleTimeString()}.
  </p>`;
}
