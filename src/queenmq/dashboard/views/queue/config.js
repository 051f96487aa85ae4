/**
 * The editor of a queue's options. It checks fields as a person types, and shows what changes before it saves.
 */
import { Button } from "../../components/basics.js";
import { ConfirmDialog } from "../../components/dialog.js";
import { SelectField, TextField, Toggle } from "../../components/forms.js";
import { Card } from "../../components/page.js";
import { toast } from "../../components/toasts.js";
import { get, path, send } from "../../lib/api.js";
import { sentence } from "../../lib/errors.js";
import { plural } from "../../lib/format.js";
import { may } from "../../lib/store.js";
import { useState, html } from "../../lib/ui.js";
import { OPTIONS, SECTIONS, consequences, draftOf, editsOf, faultOf, shown } from "./options.js";

/**
 * @typedef {import("../../lib/types.js").QueueDetail} QueueDetail
 * @typedef {import("./options.js").Draft} Draft
 * @typedef {import("./options.js").Option} Option
 */

const UNITS = { seconds: "seconds", milliseconds: "milliseconds", number: "", switch: "", choice: "" };

/** @param {{queue: QueueDetail, onSaved: () => void}} props */
export function Configuration({ queue, onSaved }) {
  // What was loaded when the editing began: a poll must not change what a person compares with.
  const [loaded, setLoaded] = useState(queue.options);
  const [draft, setDraft] = useState(/** @type {Draft} */ (draftOf(queue.options)));
  const [latest, setLatest] = useState(/** @type {QueueDetail | null} */ (null));
  const [isBusy, setBusy] = useState(false);
  const mayEdit = may("read-write");
  const faults = OPTIONS.filter((option) => faultOf(option, draft[option.name]) !== null).length;
  const edited = Object.keys(editsOf(loaded, draft)).length;
  const reset = (/** @type {QueueDetail} */ { options }) => {
    setLoaded(options);
    setDraft(draftOf(options));
  };
  /** @param {Event} event */
  const review = async (event) => {
    event.preventDefault();
    if (faults || !edited || isBusy) return;
    setBusy(true);
    try {
      setLatest(await get(path`/api/v1/resources/queues/${queue.name}`, { partitions: false }));
    } catch (failure) {
      toast(sentence(failure), "danger");
    }
    setBusy(false);
  };
  return html`<form class="stack" onSubmit=${review}>
    ${SECTIONS.map((section) => html`<${Card} key=${section.title} title=${section.title}>
      <fieldset class="options" disabled=${!mayEdit}>
        <legend class="visually-hidden">${section.title}</legend>
        ${section.options.map((option) => html`<${OptionField} key=${option.name} option=${option} draft=${draft}
          isEdited=${option.name in editsOf(loaded, draft)} isDisabled=${!mayEdit}
          onChange=${(/** @type {string | boolean} */ value) => setDraft({ ...draft, [option.name]: value })} />`)}
      </fieldset>
    </${Card}>`)}
    <div class="save-bar">
      <span class="muted" role="status">${!mayEdit ? "Your role may not change options." : faults ? `${plural(faults, "field")} to correct` : edited ? `${plural(edited, "change")} not saved` : "No changes"}</span>
      <${Button} disabled=${edited === 0 && faults === 0} onClick=${() => reset(queue)}>Reset</${Button}>
      <${Button} kind="primary" type="submit" isBusy=${isBusy} disabled=${!mayEdit || faults > 0 || edited === 0}>Review changes</${Button}>
    </div>
  </form>
  ${latest && html`<${Review} latest=${latest} edits=${editsOf(loaded, draft)} onClose=${() => setLatest(null)}
      onSaved=${(/** @type {QueueDetail} */ saved) => {
        reset(saved);
        onSaved();
      }} />`}`;
}

/**
 * @param {{option: Option, draft: Draft, isEdited: boolean, isDisabled: boolean, onChange: (value: string | boolean) => void}} props
 */
function OptionField({ option, draft, isEdited, isDisabled, onChange }) {
  const { name, label, hint, kind, choices = [] } = option;
  const value = draft[name];
  const edited = isEdited ? "option option-edited" : "option";
  if (kind === "switch") {
    return html`<div class=${edited}><${Toggle} label=${label} hint=${hint} checked=${value} onChange=${onChange} disabled=${isDisabled} /></div>`;
  }
  if (kind === "choice") {
    return html`<div class=${edited}><${SelectField} label=${label} hint=${hint} value=${value} onChange=${onChange}
      options=${choices.map((one) => ({ value: one, label: one }))} /></div>`;
  }
  const unit = UNITS[kind];
  return html`<div class=${edited}><${TextField} label=${unit ? `${label} (${unit})` : label} hint=${hint} value=${value} onChange=${onChange}
    error=${faultOf(option, value)} inputmode="numeric" autocomplete="off" /></div>`;
}

/**
 * Configuring replaces all options, so what is sent is the newest state with the edits in it.
 * @param {{latest: QueueDetail, edits: Partial<QueueDetail["options"]>, onClose: () => void, onSaved: (saved: QueueDetail) => void}} props
 */
function Review({ latest, edits, onClose, onSaved }) {
  const next = { ...latest.options, ...edits };
  const rows = OPTIONS.filter(({ name }) => name in edits);
  const said = consequences(next, edits, latest.totals.pending);
  const save = async () => {
    await send("POST", "/api/v1/configure", { queue: latest.name, namespace: latest.namespace, task: latest.task, options: next });
    toast(`Saved ${plural(rows.length, "change")} of ${latest.name}.`, "good");
    onSaved({ ...latest, options: next });
  };
  return html`<${ConfirmDialog} title="Save these changes?" action="Save" kind="primary" onConfirm=${save} onClose=${onClose}>
    <table class="table changes">
      <caption class="visually-hidden">Changes</caption>
      <thead><tr><th scope="col">Option</th><th scope="col">Now</th><th scope="col">New</th></tr></thead>
      <tbody>${rows.map((option) => html`<tr key=${option.name}>
        <td>${option.label}</td>
        <td><del>${shown(option, latest.options[option.name])}</del></td>
        <td><ins>${shown(option, next[option.name])}</ins></td>
      </tr>`)}</tbody>
    </table>
    ${said.map((text) => html`<p key=${text} class="note note-warning">${text}</p>`)}
  </${ConfirmDialog}>`;
}
