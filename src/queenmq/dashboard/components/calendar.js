/**
 * Days as squares, a column per week, as far back as there is data: how much of each day is covered.
 */
import { count, percent } from "../lib/format.js";
import { html } from "../lib/ui.js";

/** @typedef {{day: string, total: number, covered: number}} Day `day` as 2026-01-31. */

const DAY_MS = 86_400_000;
const CELL = 15;
const GAP = 3;
const WEEKS_MIN = 8;
const month = new Intl.DateTimeFormat(undefined, { month: "short", timeZone: "UTC" });

/** How much of a day is covered, in words that are also classes. @param {Day | undefined} day */
export function levelOf(day) {
  if (!day || day.total === 0) return "none";
  if (day.covered >= day.total) return "full";
  return day.covered > 0 ? "part" : "open";
}

const WORDS = { none: "nothing was pushed", full: "archived", part: "partly archived", open: "not archived" };

/** @param {{days: Day[], label: string, nowMs?: number}} props */
export function Calendar({ days, label, nowMs = Date.now() }) {
  const byDay = new Map(days.map((one) => [one.day, one]));
  const today = Math.floor(nowMs / DAY_MS);
  const first = Math.min(today, ...days.map((one) => Math.floor(Date.parse(one.day) / DAY_MS)));
  // Weeks begin on Monday; the first day of the epoch was a Thursday.
  const weekday = (/** @type {number} */ day) => (day + 3) % 7;
  const monday = today - weekday(today);
  const weeks = Math.min(53, Math.max(WEEKS_MIN, Math.floor((monday - (first - weekday(first))) / 7) + 1));
  const cells = [];
  const months = [];
  for (let week = 0; week < weeks; week += 1) {
    const start = monday - 7 * (weeks - 1 - week);
    const left = week * (CELL + GAP);
    if (week === 0 || new Date(start * DAY_MS).getUTCMonth() !== new Date((start - 7) * DAY_MS).getUTCMonth()) {
      months.push(html`<text key=${start} class="calendar-month" x=${left} y="10">${month.format(start * DAY_MS)}</text>`);
    }
    for (let index = 0; index < 7 && start + index <= today; index += 1) {
      const name = new Date((start + index) * DAY_MS).toISOString().slice(0, 10);
      const found = byDay.get(name);
      const level = levelOf(found);
      const share = found && found.total > 0 ? `, ${count(found.total)} pushed, ${percent(found.covered / found.total)} archived` : "";
      cells.push(html`<rect key=${name} class=${`day day-${level}`} x=${left} y=${16 + index * (CELL + GAP)} width=${CELL} height=${CELL} rx="3">
        <title>${`${name}: ${WORDS[level]}${share}`}</title>
      </rect>`);
    }
  }
  const width = weeks * (CELL + GAP);
  const sums = (/** @type {string} */ level) => days.filter((one) => levelOf(one) === level).length;
  return html`<figure class="calendar">
    <div class="calendar-scroll"><svg width=${width} height=${16 + 7 * (CELL + GAP)} role="img"
      aria-label=${`${label}: ${sums("full")} days archived, ${sums("part")} partly, ${sums("open")} not.`}>${months}${cells}</svg></div>
    <ul class="legend">${Object.entries({ full: "archived", part: "partly", open: "not archived", none: "nothing pushed" }).map(([level, text]) => html`<li key=${level}>
      <svg width="11" height="11" aria-hidden="true"><rect class=${`day day-${level}`} width="11" height="11" rx="2" /></svg>${text}</li>`)}</ul>
  </figure>`;
}
