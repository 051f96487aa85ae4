/**
 * Every view of the dashboard. To add one: write `views/<name>.js` that exports `view`, import it here, add it to VIEWS.
 * The order is that of the navigation.
 */
import { view as deadLetter } from "./dead_letters/letter.js";
import { view as deadLetters } from "./dead_letters/list.js";
import { view as group } from "./groups/detail.js";
import { view as groups } from "./groups/list.js";
import { view as message } from "./message.js";
import { view as messages } from "./messages.js";
import { view as operations } from "./operations.js";
import { view as overview } from "./overview.js";
import { view as partition } from "./partition.js";
import { view as jobRun } from "./pipeline/job_run.js";
import { view as pipeline } from "./pipeline/list.js";
import { view as run } from "./pipeline/run.js";
import { view as queue } from "./queue.js";
import { view as queues } from "./queues.js";
import { view as system } from "./system/view.js";
import { view as traces } from "./traces/list.js";
import { byMessage, byName } from "./traces/story.js";

/**
 * What a view tells of itself.
 * @typedef {object} View
 * @property {string} path A pattern of the router: "/queues" or "/queues/:queue". It is unique.
 * @property {string} title
 * @property {(props: ViewProps) => unknown} component
 * @property {{label: string, icon: string, key: string, group: string}} [nav] Where it stands in the navigation, and the
 *   letter that opens it after `g`. A page below another, as a detail, has none.
 * @property {string} [under] Of a page without `nav`: the path of the view that the navigation marks.
 */

/**
 * What a view is given: values of its path, and the query of the hash. It reads data with `useResource`.
 * @typedef {{params: Record<string, string>, query: Record<string, string>}} ViewProps
 */

/** @type {View[]} */
export const VIEWS = [
  overview,
  queues, queue, partition,
  messages, message,
  groups, group,
  deadLetters, deadLetter,
  operations,
  traces, byName, byMessage,
  pipeline, run, jobRun,
  system,
];
