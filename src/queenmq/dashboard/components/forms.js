/**
 * Form fields: a label, a hint, and an error that a screen reader finds beside its field.
 */
import { useId, html } from "../lib/ui.js";

/**
 * @param {{label: string, hint?: string, error?: string | null, children: (ids: {id: string, describedBy: string}) => unknown}} props
 */
export function Field({ label, hint, error, children }) {
  const id = useId();
  const describedBy = `${id}-about`;
  return html`<div class="field">
    <label class="field-label" for=${id}>${label}</label>
    ${children({ id, describedBy })}
    <p class=${error ? "field-error" : "field-hint"} id=${describedBy}>${error ?? hint ?? ""}</p>
  </div>`;
}

/**
 * @param {{label: string, value: string, onChange: (value: string) => void, hint?: string, error?: string | null,
 *   type?: string, placeholder?: string, required?: boolean, mono?: boolean, [name: string]: unknown}} props
 */
export function TextField({ label, value, onChange, hint, error, type = "text", mono = false, ...rest }) {
  return html`<${Field} label=${label} hint=${hint} error=${error}>
    ${(/** @type {{id: string, describedBy: string}} */ { id, describedBy }) => html`<input id=${id} type=${type}
      class=${mono ? "input mono" : "input"} value=${value} aria-describedby=${describedBy} aria-invalid=${Boolean(error)}
      onInput=${(/** @type {{target: HTMLInputElement}} */ { target }) => onChange(target.value)} ...${rest} />`}
  </${Field}>`;
}

/**
 * @param {{label: string, value: string, onChange: (value: string) => void, hint?: string, error?: string | null,
 *   rows?: number, [name: string]: unknown}} props
 */
export function TextArea({ label, value, onChange, hint, error, rows = 8, ...rest }) {
  return html`<${Field} label=${label} hint=${hint} error=${error}>
    ${(/** @type {{id: string, describedBy: string}} */ { id, describedBy }) => html`<textarea id=${id} rows=${rows}
      class="input mono text-area" aria-describedby=${describedBy} aria-invalid=${Boolean(error)} spellcheck=${false} value=${value}
      onInput=${(/** @type {{target: HTMLTextAreaElement}} */ { target }) => onChange(target.value)} ...${rest}></textarea>`}
  </${Field}>`;
}

/**
 * @param {{label: string, value: string, onChange: (value: string) => void, options: {value: string, label: string}[],
 *   hint?: string}} props
 */
export function SelectField({ label, value, onChange, options, hint }) {
  return html`<${Field} label=${label} hint=${hint}>
    ${(/** @type {{id: string, describedBy: string}} */ { id, describedBy }) => html`<select id=${id} class="input" value=${value}
      aria-describedby=${describedBy} onChange=${(/** @type {{target: HTMLSelectElement}} */ { target }) => onChange(target.value)}>
      ${options.map((one) => html`<option key=${one.value} value=${one.value} selected=${one.value === value}>${one.label}</option>`)}
    </select>`}
  </${Field}>`;
}

/** @param {{label: string, checked: boolean, onChange: (checked: boolean) => void, hint?: string, disabled?: boolean}} props */
export function Toggle({ label, checked, onChange, hint, disabled = false }) {
  return html`<label class="toggle">
    <input type="checkbox" role="switch" checked=${checked} disabled=${disabled}
      onChange=${(/** @type {{target: HTMLInputElement}} */ { target }) => onChange(target.checked)} />
    <span class="toggle-track" aria-hidden="true"></span>
    <span><span class="toggle-label">${label}</span>${hint && html`<span class="field-hint">${hint}</span>`}</span>
  </label>`;
}
