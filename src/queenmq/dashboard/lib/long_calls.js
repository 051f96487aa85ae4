/**
 * Says which calls are long: the broker gives them ten minutes, because they change or count many rows in one
 * transaction, and goes on when the page gives up.
 */

/** What a long call gets beyond the ordinary limit. The broker's limit ends before. */
export const LONG_MS = 600_000;

/** Their routes. The client has the same list, in client/long_calls.py. */
export const ROUTES = [
  "DELETE /api/v1/resources/queues/{queue}",
  "DELETE /api/v1/resources/queues/{queue}/partitions/{partition}",
  "DELETE /api/v1/queues/{queue}/clear",
  "DELETE /api/v1/consumer-groups/{group}",
  "DELETE /api/v1/consumer-groups/{group}/queues/{queue}",
  "POST /api/v1/consumer-groups/{group}/queues/{queue}/seek",
  "POST /api/v1/consumer-groups/{group}/queues/{queue}/partitions/{partition}/seek",
  "GET /api/v1/consumer-groups/{group}/queues/{queue}/seek-preview",
];

const PATTERN = new RegExp(`^(${ROUTES.join("|").replace(/\{\w+\}/g, "[^/]+")})$`);

/**
 * @param {string} method
 * @param {string} url A path, maybe with a query.
 */
export function isLong(method, url) {
  return PATTERN.test(`${method} ${url.replace(/\?.*/s, "")}`);
}
