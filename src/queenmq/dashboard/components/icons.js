/**
 * Icons as SVG paths on a 24 by 24 grid, drawn with the text's colour.
 */
import { html } from "../lib/ui.js";

/** @type {Record<string, string>} */
const PATHS = {
  overview: "M4 13h4l2.5-7 4 13 2.5-6h3",
  queues: "M4 6h16M4 12h16M4 18h10",
  messages: "M4 6.5h16v11H4zM4 7l8 6 8-6",
  groups: "M9 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM3.5 19a5.5 5.5 0 0 1 11 0M16 5.5a3 3 0 0 1 0 5.5M17 14a5.5 5.5 0 0 1 3.5 5",
  dead: "M12 8v5M12 16.5v.01M10.3 4.6 3.2 17a2 2 0 0 0 1.7 3h14.2a2 2 0 0 0 1.7-3L13.7 4.6a2 2 0 0 0-3.4 0z",
  operations: "M5 7h9M18 7h1M5 17h1M10 17h9M16 5v4M8 15v4",
  traces: "M5 5v14M5 8h7a3 3 0 0 1 3 3v2a3 3 0 0 0 3 3h1",
  pipeline: "M4 5h6v5H4zM14 14h6v5h-6zM7 10v6.5h7",
  system: "M5 5h14v6H5zM5 13h14v6H5zM8 8v.01M8 16v.01",
  search: "M11 17a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM15.5 15.5 20 20",
  close: "M6 6l12 12M18 6 6 18",
  copy: "M9 9h10v10H9zM5 15V5h10",
  plus: "M12 5v14M5 12h14",
  refresh: "M19 12a7 7 0 1 1-2-4.9M19 4v4h-4",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21M5.6 5.6l1 1M17.4 17.4l1 1M5.6 18.4l1-1M17.4 6.6l1-1",
  moon: "M19 14.5A7.5 7.5 0 0 1 9.5 5a7.5 7.5 0 1 0 9.5 9.5z",
  screen: "M4 5h16v11H4zM9 20h6",
  menu: "M4 7h16M4 12h16M4 17h16",
  help: "M9.5 9.5a2.5 2.5 0 1 1 3.6 2.2c-.8.4-1.1.9-1.1 1.8M12 17v.01M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z",
  logout: "M14 5H6v14h8M11 12h9M17 9l3 3-3 3",
  up: "M7 14l5-5 5 5",
  down: "M7 10l5 5 5-5",
  left: "M14 7l-5 5 5 5",
  right: "M10 7l5 5-5 5",
  pause: "M9 6v12M15 6v12",
  play: "M8 5.5v13l10-6.5z",
  trash: "M5 7h14M10 4h4M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  seek: "M5 6v12M19 6l-8 6 8 6z",
  check: "M5 12.5l4.5 4.5L19 7.5",
};

/** @param {{name: string, size?: number}} props */
export function Icon({ name, size = 18 }) {
  return html`<svg class="icon" width=${size} height=${size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
    <path d=${PATHS[name] ?? PATHS.help} />
  </svg>`;
}
