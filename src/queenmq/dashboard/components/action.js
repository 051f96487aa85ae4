/**
 * A button for something that changes things: it is enabled by role, asks first, and says what was done.
 */
import { may } from "../lib/store.js";
import { useState, html } from "../lib/ui.js";
import { Button } from "./basics.js";
import { ConfirmDialog } from "./dialog.js";
import { toast } from "./toasts.js";

/** @typedef {"read-only" | "read-write" | "admin"} Role */

/**
 * What a button does, for a role that may not: it stays visible and says what is needed.
 * @param {Role} role
 */
export const refusal = (role) => (may(role) ? undefined : `This needs the role ${role}`);

/**
 * `run` does it and returns the sentence that says so. `children` is the text of the question, `label` that of the button.
 * @param {{label: string, role: Role, title: string, action: string, typed?: string, icon?: string, isQuiet?: boolean,
 *   name?: string, disabled?: boolean, run: () => Promise<string>, children?: unknown}} props `name`: for a screen reader, where
 *   several buttons of a page have the same label.
 */
export function ActionButton({ label, role, title, action, typed, icon, isQuiet = false, name, disabled = false, run, children }) {
  const [isOpen, setOpen] = useState(false);
  return html`<${Button} kind=${isQuiet ? "quiet" : "plain"} icon=${icon} disabled=${disabled || !may(role)} title=${refusal(role)}
      aria-label=${name} onClick=${() => setOpen(true)}>${label}</${Button}>
    ${isOpen && html`<${ConfirmDialog} title=${title} action=${action} typed=${typed} onClose=${() => setOpen(false)}
      onConfirm=${async () => toast(await run(), "good")}>${children}</${ConfirmDialog}>`}`;
}
