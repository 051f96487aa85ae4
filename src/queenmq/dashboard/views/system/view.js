/**
 * The machinery: brokers and their workers, PostgreSQL, settings, tokens and the audit log, a tab each.
 */
import { PageHeader } from "../../components/page.js";
import { Tabs } from "../../components/tabs.js";
import { RangePicker } from "../../components/controls.js";
import { link } from "../../lib/router.js";
import { may } from "../../lib/store.js";
import { html } from "../../lib/ui.js";
import { Audit } from "./audit.js";
import { Brokers } from "./brokers.js";
import { Postgres } from "./postgres.js";
import { Settings } from "./settings.js";
import { Tokens } from "./tokens.js";

/** @type {{id: string, label: string, isAdmin?: boolean, component: (props: {query: Record<string, string>}) => unknown}[]} */
const TABS = [
  { id: "brokers", label: "Brokers", component: Brokers },
  { id: "postgres", label: "PostgreSQL", component: Postgres },
  { id: "settings", label: "Settings", isAdmin: true, component: Settings },
  { id: "tokens", label: "Tokens", isAdmin: true, component: Tokens },
  { id: "audit", label: "Audit log", isAdmin: true, component: Audit },
];

export const view = {
  path: "/system",
  title: "System",
  nav: { label: "System", icon: "system", key: "y", group: "Look closer" },
  component: System,
};

/** @param {import("../registry.js").ViewProps} props */
function System({ query }) {
  // What the broker would refuse is not offered.
  const tabs = TABS.filter((one) => !one.isAdmin || may("admin"));
  const tab = tabs.find((one) => one.id === query.tab) ?? tabs[0];
  return html`
    <${PageHeader} title="System">${tab?.id === "brokers" && html`<${RangePicker} />`}</${PageHeader}>
    <${Tabs} label="Parts of the system" active=${tab?.id ?? ""} tabs=${tabs.map(({ id, label }) => ({ id, label, href: link("system", { tab: id }) }))} />
    ${tab && html`<${tab.component} key=${tab.id} query=${query} />`}`;
}
