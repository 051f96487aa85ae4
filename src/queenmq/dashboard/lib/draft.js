/**
 * What a person types on top of a value that may change from outside, as by a link or the back button.
 */
import { useRef, useState } from "./ui.js";

/**
 * The draft, which is `given` until it is changed and again whenever `given` changes. It is compared while drawing: an
 * effect that copied it would come later, and could undo a first letter.
 * @template T
 * @param {T} given
 * @returns {[T, (next: T) => void]}
 */
export function useDraft(given) {
  const key = JSON.stringify(given);
  const held = useRef({ key, draft: given });
  const [, redraw] = useState(0);
  if (held.current.key !== key) held.current = { key, draft: given };
  return [held.current.draft, (next) => {
    held.current = { key, draft: next };
    redraw((times) => times + 1);
  }];
}
