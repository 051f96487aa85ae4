/**
 * Dialogs on the browser's own <dialog>: it keeps the focus inside and closes with Escape.
 */
import { sentence } from "../lib/errors.js";
import { useEffect, useId, useRef, useState, html } from "../lib/ui.js";
import { Button } from "./basics.js";

/**
 * @param {{title: string, onClose: () => void, isWide?: boolean, children?: unknown}} props
 */
export function Dialog({ title, onClose, isWide = false, children }) {
  const ref = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    ref.current?.showModal();
    return () => void (before instanceof HTMLElement && before.focus());
  }, []);
  /** @param {Event} event */
  const onClick = (event) => void (event.target === ref.current && onClose());
  return html`<dialog ref=${ref} class=${isWide ? "dialog dialog-wide" : "dialog"} aria-labelledby=${id} onClose=${onClose} onClick=${onClick}>
    <div class="dialog-body">
      <header class="dialog-header">
        <h2 id=${id}>${title}</h2>
        <${Button} kind="quiet" icon="close" label="Close" onClick=${onClose} />
      </header>
      ${children}
    </div>
  </dialog>`;
}

/**
 * Ask before something that cannot be undone. With `typed` a person has to type that text first.
 * `onConfirm` does the work; the dialog shows that it is under way, and its error if it fails.
 * @param {{title: string, action: string, typed?: string, kind?: "danger" | "primary", disabled?: boolean,
 *   onConfirm: () => Promise<unknown>, onClose: () => void, children?: unknown}} props
 */
export function ConfirmDialog({ title, action, typed, kind = "danger", disabled = false, onConfirm, onClose, children }) {
  const [text, setText] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState(/** @type {unknown} */ (null));
  /** @param {Event} event */
  const submit = async (event) => {
    event.preventDefault();
    if (isBusy || disabled || (typed !== undefined && text !== typed)) return;
    setBusy(true);
    setError(null);
    try {
      await onConfirm();
      onClose();
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${submit}>
      <div class="dialog-text">${children}</div>
      ${typed !== undefined && html`<label class="field">
        <span class="field-label">Type <code>${typed}</code> to confirm</span>
        <input class="input" value=${text} autocomplete="off" spellcheck=${false}
          onInput=${(/** @type {{target: HTMLInputElement}} */ { target }) => setText(target.value)} />
      </label>`}
      ${Boolean(error) && html`<p class="form-error" role="alert">${sentence(error)}</p>`}
      <footer class="dialog-footer">
        <${Button} onClick=${onClose}>Cancel</${Button}>
        <${Button} kind=${kind} type="submit" isBusy=${isBusy}
          disabled=${disabled || (typed !== undefined && text !== typed)}>${action}</${Button}>
      </footer>
    </form>
  </${Dialog}>`;
}
