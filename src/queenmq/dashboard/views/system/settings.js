/**
 * Settings of the broker that answers, and where each comes from. Secrets never reach the page.
 */
import { Badge } from "../../components/basics.js";
import { Card } from "../../components/page.js";
import { SearchBox } from "../../components/search.js";
import { DataTable } from "../../components/table.js";
import { get } from "../../lib/api.js";
import { useResource } from "../../lib/poll.js";
import { setQuery } from "../../lib/router.js";
import { html } from "../../lib/ui.js";

/** @typedef {import("../../lib/types.js").Setting} Setting */
/** @typedef {import("../../lib/types.js").SettingList} SettingList */

/** @type {Record<string, import("../../components/basics.js").Tone>} */
const TONES = { flag: "accent", environment: "accent", file: "accent" };

/** @type {import("../../components/table.js").Column<Setting>[]} */
const COLUMNS = [
  { id: "name", title: "Setting", cell: (row) => html`<span class="strong mono name">${row.name}</span><span class="muted sub name">${row.description}</span>` },
  { id: "value", title: "Value", cell: (row) => html`<${Value} row=${row} />` },
  { id: "origin", title: "From", align: "end", cell: (row) => html`<${Badge} tone=${TONES[row.origin] ?? "neutral"}>${row.origin}</${Badge}>` },
];

/** @param {{row: Setting}} props */
function Value({ row }) {
  const note = row.isHidden && html`<span class="muted sub">${row.value === null ? "secret, not shown" : "password left out"}</span>`;
  if (row.value === null) return note || html`<span class="muted">not set</span>`;
  return html`<code>${row.value === "" ? '""' : String(row.value)}</code>${note}`;
}

/** @param {{query: Record<string, string>}} props */
export function Settings({ query }) {
  const search = query.search ?? "";
  const isChanged = query.changed === "1";
  const list = useResource((signal) => get("/api/v1/system/settings", {}, { signal }));
  const rows = /** @type {SettingList | null} */ (list.data)?.settings.filter((row) =>
    (!isChanged || row.origin !== "default") && `${row.name} ${row.description}`.toLowerCase().includes(search.toLowerCase())) ?? null;
  return html`<${Card} title="Settings" note="of the broker that answers" flush actions=${html`
      <div class="segments" role="group" aria-label="Which settings">
        <button type="button" aria-pressed=${!isChanged} onClick=${() => setQuery({ changed: null })}>All</button>
        <button type="button" aria-pressed=${isChanged} onClick=${() => setQuery({ changed: "1" })}>Changed</button>
      </div>
      <${SearchBox} label="Search settings" value=${search} onSearch=${(/** @type {string} */ text) => setQuery({ search: text })} />`}>
    <${DataTable} label="Settings" columns=${COLUMNS} of=${{ ...list, data: rows }} rowKey=${(/** @type {Setting} */ row) => row.name}
      empty=${{ title: "No setting matches" }} />
  </${Card}>`;
}
