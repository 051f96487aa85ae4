/**
 * Tables: sortable by their headers, with pages, and the states loading, error and empty.
 */
import { count } from "../lib/format.js";
import { classes, html } from "../lib/ui.js";
import { Button } from "./basics.js";
import { Icon } from "./icons.js";
import { Empty, Show } from "./page.js";

/**
 * @template R
 * @typedef {object} Column
 * @property {string} id Also names the column in the URL when a table is sorted by it.
 * @property {string} title
 * @property {(row: R) => unknown} cell
 * @property {(row: R) => string | number} [sort] Leave it out where sorting makes no sense.
 * @property {"end"} [align] Numbers stand at the end.
 * @property {boolean} [isWide] Left out on a phone.
 */

/** @typedef {{by: string, isDown: boolean}} Sort */

/**
 * Read a sort from the URL: "pending" or "-pending".
 * @param {string | undefined} text
 * @param {Sort} fallback
 * @returns {Sort}
 */
export function parseSort(text, fallback) {
  if (!text) return fallback;
  return text.startsWith("-") ? { by: text.slice(1), isDown: true } : { by: text, isDown: false };
}

/** @param {Sort} sort */
export const sortText = ({ by, isDown }) => (isDown ? `-${by}` : by);

/**
 * Sort rows by a column; rows that are equal keep their order.
 * @template R
 * @param {R[]} rows
 * @param {Column<R>[]} columns
 * @param {Sort} sort
 */
export function sorted(rows, columns, sort) {
  const value = columns.find((one) => one.id === sort.by)?.sort;
  if (!value) return rows;
  const sign = sort.isDown ? -1 : 1;
  return [...rows].sort((one, other) => {
    const [left, right] = [value(one), value(other)];
    return left < right ? -sign : left > right ? sign : 0;
  });
}

/**
 * @template R
 * @param {{label: string, columns: Column<R>[], of: import("../lib/poll.js").Resource<R[]>, rowKey: (row: R) => string,
 *   sort?: Sort, onSort?: (sort: Sort) => void, empty?: {title: string, text?: unknown}, page?: PageProps}} props
 */
export function DataTable({ label, columns, of, rowKey, sort, onSort, empty, page }) {
  return html`<${Show} of=${of} what=${label}>
    ${(/** @type {R[]} */ rows) => rows.length === 0
      ? html`<${Empty} title=${empty?.title ?? "Nothing here"}>${empty?.text}</${Empty}>`
      : html`<div class="table-scroll" tabindex="0" role="region" aria-label=${label}>
          <table class="table">
            <caption class="visually-hidden">${label}</caption>
            <thead><tr>${columns.map((one) => html`<${Head} key=${one.id} column=${one} sort=${sort} onSort=${onSort} />`)}</tr></thead>
            <tbody>${rows.map((row) => html`<tr key=${rowKey(row)}>
              ${columns.map((one) => html`<td key=${one.id} class=${cellClass(one)}>${one.cell(row)}</td>`)}
            </tr>`)}</tbody>
          </table>
        </div>`}
  </${Show}>${page && html`<${Pager} ...${page} />`}`;
}

/** @param {{align?: string, isWide?: boolean}} column */
const cellClass = ({ align, isWide }) => classes(align === "end" && "cell-end", isWide && "cell-wide");

/**
 * @template R
 * @param {{column: Column<R>, sort?: Sort, onSort?: (sort: Sort) => void}} props
 */
function Head({ column, sort, onSort }) {
  if (!column.sort || !onSort) return html`<th scope="col" class=${cellClass(column)}>${column.title}</th>`;
  const isActive = sort?.by === column.id;
  const order = isActive ? (sort?.isDown ? "descending" : "ascending") : "none";
  // Numbers are asked for from the largest, names from the first.
  const next = { by: column.id, isDown: isActive ? !sort?.isDown : column.align === "end" };
  return html`<th scope="col" class=${cellClass(column)} aria-sort=${order}>
    <button type="button" class="sort" onClick=${() => onSort(next)}>
      ${column.title}
      ${isActive && html`<${Icon} name=${sort?.isDown ? "down" : "up"} size="14" />`}
    </button>
  </th>`;
}

/**
 * `total` null: not known; then `hasMore` says whether there is a next page.
 * @typedef {{offset: number, limit: number, shown: number, total: number | null, hasMore?: boolean,
 *   onPage: (offset: number) => void}} PageProps
 */

/** @param {PageProps} props */
export function Pager({ offset, limit, shown, total, hasMore = false, onPage }) {
  const isLast = total === null ? !hasMore : offset + shown >= total;
  if (offset === 0 && isLast) return null;
  const range = shown ? `${count(offset + 1)}–${count(offset + shown)}` : "none";
  return html`<nav class="pager" aria-label="Pages">
    <span class="muted">${range}${total !== null && ` of ${count(total)}`}</span>
    <${Button} kind="quiet" icon="left" label="Previous page" disabled=${offset === 0}
      onClick=${() => onPage(Math.max(0, offset - limit))} />
    <${Button} kind="quiet" icon="right" label="Next page" disabled=${isLast} onClick=${() => onPage(offset + limit)} />
  </nav>`;
}
