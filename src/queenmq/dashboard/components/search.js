/**
 * A search box. It asks after a pause in typing, and `/` focuses the first one of the page.
 */
import { useDraft } from "../lib/draft.js";
import { useEffect, useRef, html } from "../lib/ui.js";
import { Icon } from "./icons.js";

const PAUSE_MS = 250;

/** @param {{value: string, label: string, onSearch: (text: string) => void}} props */
export function SearchBox({ value, label, onSearch }) {
  const [text, setText] = useDraft(value);
  const timer = useRef(0);
  useEffect(() => () => clearTimeout(timer.current), []);
  /** @param {{target: HTMLInputElement}} event */
  const onInput = ({ target }) => {
    setText(target.value);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => onSearch(target.value.trim()), PAUSE_MS);
  };
  return html`<label class="search">
    <span class="visually-hidden">${label}</span>
    <${Icon} name="search" size="16" />
    <input type="search" data-search placeholder=${label} value=${text} onInput=${onInput} autocomplete="off" spellcheck=${false} />
    <kbd aria-hidden="true">/</kbd>
  </label>`;
}

export function focusSearch() {
  const box = document.querySelector("[data-search]");
  if (box instanceof HTMLInputElement) {
    box.focus();
    box.select();
  }
}
