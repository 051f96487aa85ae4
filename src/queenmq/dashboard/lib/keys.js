/**
 * Keys: `/` to search, `?` for help, `g` and a letter to go somewhere. None of them while a person types.
 */
import { useEffect } from "./ui.js";

/** How long `g` waits for its letter. */
const CHORD_MS = 1_500;

/** @param {EventTarget | null} target */
function isTyping(target) {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/**
 * @param {{places: Record<string, () => void>, onSearch: () => void, onHelp: () => void}} actions
 */
export function useKeys({ places, onSearch, onHelp }) {
  useEffect(() => {
    let chordUntil = 0;
    /** @param {KeyboardEvent} event */
    const onKey = (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      const isChord = event.timeStamp < chordUntil;
      chordUntil = 0;
      if (isChord && places[event.key]) {
        event.preventDefault();
        places[event.key]?.();
      } else if (event.key === "g") {
        chordUntil = event.timeStamp + CHORD_MS;
      } else if (event.key === "/") {
        event.preventDefault();
        onSearch();
      } else if (event.key === "?") {
        onHelp();
      }
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [places, onSearch, onHelp]);
}
