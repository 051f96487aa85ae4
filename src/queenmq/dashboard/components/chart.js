/**
 * Line charts over time, drawn by uPlot on a canvas. The legend is ours: it shows the values under the pointer, and a
 * screen reader gets a sentence about each line.
 */
import { localTime } from "../lib/format.js";
import { theme, useValue } from "../lib/store.js";
import { useEffect, useMemo, useRef, useState, html } from "../lib/ui.js";
import { Empty } from "./page.js";

/**
 * @typedef {{label: string, values: (number | null | undefined)[], color?: number, isDashed?: boolean}} Line `color`: 1 to 6, of the tokens. A null
 *   breaks the line, undefined does not.
 * @typedef {{from: number, to: number}} Span Both in seconds.
 * @typedef {{destroy(): void, setSize(size: {width: number, height: number}): void, setData(data: unknown): void}} Plot
 */

const HEIGHT = 180;
/** Distances of the marks of an axis of counts: 1, 2, 5, 10 and so on. */
const WHOLE_STEPS = Array.from({ length: 36 }, (_, index) => ([1, 2, 5][index % 3] ?? 1) * 10 ** Math.floor(index / 3));

/** A canvas knows no CSS variables: let the browser resolve one. @param {Element} element @param {string} name */
function resolve(element, name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  element.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/**
 * @param {{title: string, times: number[], lines: Line[], format: (value: number | null | undefined) => string,
 *   span?: Span, isWhole?: boolean, empty?: string}} props `times` in seconds. `span`: what the axis covers, also where
 *   there is no data. `isWhole`: values are counts, and so are the marks of the axis.
 */
export function Chart({ title, times, lines, format, span, isWhole = false, empty = "No data in this time range yet." }) {
  const [hovered, setHovered] = useState(/** @type {number | null} */ (null));
  const hasData = times.length > 1 && lines.some((line) => line.values.some((value) => typeof value === "number"));
  const at = hovered ?? times.length - 1;
  return html`<figure class="chart">
    <figcaption class="chart-caption">
      <span class="chart-title">${title}</span>
      <span class="chart-time muted">${hovered !== null && localTime((times[hovered] ?? 0) * 1000)}</span>
    </figcaption>
    ${hasData
      ? html`<${Canvas} times=${times} lines=${lines} format=${format} span=${span} isWhole=${isWhole} onHover=${setHovered} />`
      : html`<div class="chart-empty"><${Empty} title=${empty} icon="overview" /></div>`}
    <ul class="legend">
      ${lines.map((line, index) => html`<li key=${line.label}>
        <span class=${`swatch swatch-${line.color ?? index + 1}`} aria-hidden="true"></span>${line.label}
        <strong>${format(line.values[at])}</strong>
      </li>`)}
    </ul>
    <p class="visually-hidden">${hasData ? lines.map((line) => summary(line, format)).join(" ") : empty}</p>
  </figure>`;
}

/** @param {Line} line @param {(value: number | null | undefined) => string} format */
function summary({ label, values }, format) {
  const known = values.filter((value) => typeof value === "number");
  if (known.length === 0) return `${label}: no data.`;
  return `${label}: ${format(known.at(-1))} now, ${format(Math.min(...known))} lowest, ${format(Math.max(...known))} highest.`;
}

/**
 * @param {{times: number[], lines: Line[], format: (value: number | null | undefined) => string, span?: Span,
 *   isWhole: boolean, onHover: (index: number | null) => void}} props
 */
function Canvas({ times, lines, format, span, isWhole, onHover }) {
  const home = useRef(/** @type {HTMLDivElement | null} */ (null));
  const plot = useRef(/** @type {Plot | null} */ (null));
  const chosen = useValue(theme);
  const isDark = useSystemDark();
  const data = useMemo(() => [times, ...lines.map((line) => line.values)], [times, lines]);
  // Read by the plot whenever it draws, so that a later span needs no new plot.
  const spanRef = useRef(span);
  spanRef.current = span;
  const names = lines.map((line) => line.label).join("\n");
  useEffect(() => {
    const element = home.current;
    if (!element) return undefined;
    const options = optionsOf(element, lines, { format, isWhole, onHover, getSpan: () => spanRef.current });
    plot.current = new /** @type {any} */ (globalThis).uPlot(options, data, element);
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.current?.destroy();
      plot.current = null;
    };
    // The theme is drawn into the canvas, so another one means another canvas.
  }, [names, chosen, isDark]);
  useEffect(() => plot.current?.setData(data), [data]);
  return html`<div ref=${home} class="chart-canvas" aria-hidden="true"></div>`;
}

function useSystemDark() {
  const query = useMemo(() => matchMedia("(prefers-color-scheme: dark)"), []);
  const [isDark, setDark] = useState(query.matches);
  useEffect(() => {
    const onChange = () => setDark(query.matches);
    query.addEventListener("change", onChange);
    return () => query.removeEventListener("change", onChange);
  }, []);
  return isDark;
}

/**
 * @param {HTMLElement} element
 * @param {Line[]} lines
 * @param {{format: (value: number | null | undefined) => string, isWhole: boolean, onHover: (index: number | null) => void,
 *   getSpan: () => Span | undefined}} how
 */
function optionsOf(element, lines, { format, isWhole, onHover, getSpan }) {
  const grid = { stroke: resolve(element, "--border-soft"), width: 1 };
  const axis = {
    stroke: resolve(element, "--text-muted"), grid, ticks: { show: false }, font: "11px system-ui, sans-serif", gap: 6,
  };
  return {
    width: element.clientWidth || 320,
    height: HEIGHT,
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: { key: "queen" } },
    scales: {
      x: { range: (/** @type {unknown} */ _, /** @type {number} */ low, /** @type {number} */ high) => [getSpan()?.from ?? low, getSpan()?.to ?? high] },
      y: { range: (/** @type {unknown} */ _, /** @type {number} */ __, /** @type {number} */ top) => [0, top > 0 ? top * 1.1 : 1] },
    },
    axes: [
      { ...axis, space: 70, size: 26, values: (/** @type {unknown} */ _, /** @type {number[]} */ ticks) => ticks.map(tickLabel) },
      { ...axis, size: 52, space: 36, ...(isWhole && { incrs: WHOLE_STEPS }), values: (/** @type {unknown} */ _, /** @type {number[]} */ ticks) => ticks.map(format) },
    ],
    series: [
      {},
      ...lines.map((line, index) => {
        const color = resolve(element, `--chart-${line.color ?? index + 1}`);
        return {
          label: line.label,
          stroke: color,
          width: 1.75,
          dash: line.isDashed ? [5, 4] : undefined,
          fill: index === 0 ? fade(color) : undefined,
          points: { show: false },
          spanGaps: false,
        };
      }),
    ],
    hooks: { setCursor: [(/** @type {{cursor: {idx: number | null}}} */ u) => onHover(u.cursor.idx ?? null)] },
  };
}

/** @param {string} color rgb(...) */
const fade = (color) => color.replace("rgb(", "rgba(").replace(")", ", 0.08)");

const dayTick = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const minuteTick = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

const secondTick = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });

/** @param {number} seconds */
function tickLabel(seconds) {
  const date = new Date(seconds * 1000);
  if (date.getSeconds() !== 0) return secondTick.format(date);
  return (date.getHours() + date.getMinutes() === 0 ? dayTick : minuteTick).format(date);
}
