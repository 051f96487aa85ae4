/**
 * One queue: what flows, how far its groups are and why, its partitions, its options.
 */
import { Time } from "../components/basics.js";
import { RangePicker } from "../components/controls.js";
import { Card, PageHeader, Show } from "../components/page.js";
import { PushButton } from "../components/push.js";
import { Tabs } from "../components/tabs.js";
import { Tile, Tiles } from "../components/tiles.js";
import { get, path } from "../lib/api.js";
import { count, duration, rate, short } from "../lib/format.js";
import { useResource } from "../lib/poll.js";
import { link } from "../lib/router.js";
import { html } from "../lib/ui.js";
import { Configuration } from "./queue/config.js";
import { DangerZone } from "./queue/danger.js";
import { Findings, GROUPS_MAX, StuckPartitions, useDiagnoses } from "./queue/findings.js";
import { GroupLag, QueueCharts, useHistory } from "./queue/flow.js";
import { Partitions } from "./queue/partitions.js";

/**
 * @typedef {import("../lib/types.js").QueueDetail} QueueDetail
 * @typedef {import("../lib/types.js").ConsumerGroup} ConsumerGroup
 * @typedef {import("../lib/poll.js").Resource<QueueDetail>} QueueResource
 */

export const view = {
  path: "/queues/:queue",
  title: "Queue",
  under: "/queues",
  component: Queue,
};

/** @param {import("./registry.js").ViewProps} props */
function Queue({ params, query }) {
  const name = params.queue ?? "";
  /** @type {(signal: AbortSignal) => Promise<QueueDetail>} */
  const load = (signal) => get(path`/api/v1/resources/queues/${name}`, { partitions: false }, { signal });
  const queue = useResource(load, { everyMs: 5_000, inputs: [name] });
  const tab = ["partitions", "options"].includes(query.tab ?? "") ? query.tab : "flow";
  const about = queue.data && html`${queue.data.namespace && html`${queue.data.namespace}${queue.data.task && ` / ${queue.data.task}`} · `}created <${Time} at=${queue.data.createdAt} relative />`;
  return html`
    <${PageHeader} title=${name} crumbs=${[{ label: "Queues", href: link("queues") }]} note=${about}>
      ${tab === "flow" && html`<${RangePicker} />`}
      <a class="button button-plain" href=${link("messages", { queue: name })}>Messages</a>
      <${PushButton} queue=${name} onPushed=${queue.reload} />
    </${PageHeader}>
    <${Tabs} label="Parts of the queue" active=${tab} tabs=${[
      { id: "flow", label: "Flow", href: link("queues", name) },
      { id: "partitions", label: "Partitions", href: link("queues", name, { tab: "partitions" }) },
      { id: "options", label: "Options", href: link("queues", name, { tab: "options" }) },
    ]} />
    ${tab === "flow" && html`<${Flow} name=${name} queue=${queue} focus=${query.group} />`}
    ${tab === "partitions" && html`<${Partitions} queue=${name} query=${query} />`}
    ${tab === "options" && html`<${Show} of=${queue} what="the options">${(/** @type {QueueDetail} */ data) => html`<div class="stack">
      <${Configuration} queue=${data} onSaved=${queue.reload} />
      <${DangerZone} queue=${data} onCleared=${queue.reload} />
    </div>`}</${Show}>`}`;
}

/** @param {{name: string, queue: QueueResource, focus?: string}} props */
function Flow({ name, queue, focus }) {
  const history = useHistory(name);
  /** @type {(signal: AbortSignal) => Promise<ConsumerGroup[]>} */
  const load = async (signal) => {
    const all = /** @type {ConsumerGroup[]} */ (await get("/api/v1/consumer-groups", {}, { signal }));
    return all.filter((one) => one.queueName === name);
  };
  const groups = useResource(load, { everyMs: 10_000, inputs: [name] });
  const asked = groups.data && groups.data.filter((one) => one.kind !== "spark").map((one) => one.name);
  const diagnoses = useDiagnoses(name, asked);
  // Without the queue there is nothing to say about its groups.
  if (queue.data === null && queue.error) return html`<${Show} of=${queue}>${() => null}</${Show}>`;
  const rest = groups.error && !groups.data ? { ...diagnoses, error: groups.error } : diagnoses;
  return html`<div class="stack">
    <${Show} of=${queue} what="the counters">${(/** @type {QueueDetail} */ data) => html`<${Counters} data=${data} groups=${groups.data} history=${history.data} />`}</${Show}>
    <${Card} title="Groups" flush><${GroupLag} of=${groups} /></${Card}>
    <${Card} title="Why" note="what each group does right now, and what to do" flush>
      <${Findings} of=${rest} left=${(asked?.length ?? 0) - GROUPS_MAX} focus=${focus} />
    </${Card}>
    <${QueueCharts} queue=${name} of=${history} />
    <${Card} title="Partitions to look at" note="blocked, waiting and leased ones first" flush><${StuckPartitions} of=${rest} /></${Card}>
  </div>`;
}

/**
 * @param {{data: QueueDetail, groups: ConsumerGroup[] | null, history: import("../lib/types.js").QueueOps | null}} props
 */
function Counters({ data, groups, history }) {
  const { totals } = data;
  const series = history?.series ?? [];
  const last = series.at(-1);
  const lag = groups && Math.max(0, ...groups.map((one) => one.maxTimeLag));
  return html`<${Tiles}>
    <${Tile} label="In" value=${last ? rate(last.pushPerSecond) : "–"} unit=${last ? "/s" : undefined} note="messages pushed"
      trend=${series.map((point) => point.pushPerSecond)} />
    <${Tile} label="Out" value=${last ? rate(last.popPerSecond) : "–"} unit=${last ? "/s" : undefined} note="messages delivered"
      trend=${series.map((point) => point.popPerSecond)} />
    <${Tile} label="Pending" value=${short(totals.pending)} title=${count(totals.pending)} note=${`${short(totals.processing)} under lease`}
      href=${link("messages", { queue: data.name, status: "pending" })} />
    <${Tile} label="Oldest waiting" value=${lag === null || groups?.length === 0 ? "–" : duration(lag)} note="of the group furthest behind"
      tone=${lag !== null && lag > 300 ? "warning" : "neutral"} />
    <${Tile} label="Stored" value=${short(totals.total)} title=${count(totals.total)} note=${`${short(totals.completed)} consumed by all groups`} />
    <${Tile} label="Waiting for a retry" value=${short(totals.failed)} tone=${totals.failed ? "warning" : "neutral"} note="failed messages" />
    <${Tile} label="Dead letters" value=${short(totals.deadLetter)} tone=${totals.deadLetter ? "warning" : "neutral"} note="of all groups"
      href=${link("dead-letters", { queue: data.name })} />
    <${Tile} label="Groups" value=${groups ? count(groups.length) : "–"} note="that consume this queue" />
  </${Tiles}>`;
}
