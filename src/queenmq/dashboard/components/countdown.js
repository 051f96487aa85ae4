/**
 * Time that is left, second by second, with a bar that runs out.
 */
import { duration } from "../lib/format.js";
import { useEffect, useState, html } from "../lib/ui.js";

/** @param {{from: string | null, until: string}} props */
export function Countdown({ from, until }) {
  const [nowMs, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => void (document.hidden || setNow(Date.now())), 1_000);
    return () => clearInterval(timer);
  }, []);
  const end = Date.parse(until);
  const left = Math.max(0, (end - nowMs) / 1000);
  const whole = from ? Math.max(1, (end - Date.parse(from)) / 1000) : Math.max(1, left);
  return html`<span class="countdown" title=${until}>
    <progress max="1" value=${Math.min(1, left / whole)} aria-hidden="true"></progress>
    <span>${left >= 1 ? `${duration(Math.ceil(left))} left` : "ends now"}</span>
  </span>`;
}
