/**
 * Which part of a partition is drawn, and what each place in it holds. Decisions only; `lane.js` draws them.
 */

/**
 * @typedef {import("../../lib/types.js").PartitionDetail} PartitionDetail
 * @typedef {import("../../lib/types.js").PartitionCursor} PartitionCursor
 * @typedef {import("../../lib/types.js").MessageSummary} MessageSummary
 * @typedef {{low: number, high: number}} Range Both ends are in it.
 * @typedef {{seq: number, state: string, message: MessageSummary | null}} Cell
 */

/** Messages that are drawn at once. */
export const WINDOW = 32;
/** How many of them are before the one in the middle of attention. */
const BEFORE = 10;

/** The next seq that a group gets. @param {PartitionCursor} cursor @param {PartitionDetail} place */
export const nextSeq = ({ cursorSeq }, { firstSeq }) => Math.max(cursorSeq, firstSeq - 1) + 1;

/**
 * The group to look at: the one that is asked for, else one in trouble, else the one furthest behind.
 * @param {PartitionCursor[]} groups
 * @param {string | undefined} asked
 */
export function focusOf(groups, asked) {
  const found = groups.find((one) => one.consumerGroup === asked);
  if (found) return found;
  const weight = (/** @type {PartitionCursor} */ one) => (one.blockedSeq !== null ? 3 : one.retrySeq !== null ? 2 : one.leasedUntil ? 1 : 0);
  return [...groups].sort((one, other) => weight(other) - weight(one) || other.lag - one.lag)[0] ?? null;
}

/**
 * The part to draw around `at`, or around the next message of the group in focus, or the newest messages.
 * @param {PartitionDetail} place
 * @param {PartitionCursor | null} focus
 * @param {number | null} at
 * @returns {Range | null} null: nothing is kept.
 */
export function windowOf(place, focus, at) {
  const { firstSeq, lastSeq } = place;
  if (lastSeq < firstSeq) return null;
  const middle = at ?? (focus ? nextSeq(focus, place) : lastSeq);
  const low = Math.max(firstSeq, Math.min(middle - BEFORE, lastSeq - WINDOW + 1));
  return { low, high: Math.min(lastSeq, low + WINDOW - 1) };
}

/**
 * What each place holds. A seq between two messages that are there was removed or moved away singly.
 * @param {Range} range
 * @param {MessageSummary[] | null} messages null: not known yet.
 * @returns {Cell[]}
 */
export function cellsOf({ low, high }, messages) {
  const bySeq = new Map((messages ?? []).map((one) => [one.seq, one]));
  return Array.from({ length: high - low + 1 }, (_, index) => {
    const seq = low + index;
    const message = bySeq.get(seq) ?? null;
    return { seq, message, state: message?.status ?? (messages ? "removed" : "unknown") };
  });
}

/**
 * The first message that a group has not passed, as far as the drawn part shows it: seqs before it may be gone.
 * @param {PartitionCursor} cursor
 * @param {PartitionDetail} place
 * @param {MessageSummary[]} messages
 */
export function nextMessageSeq(cursor, place, messages) {
  const next = nextSeq(cursor, place);
  const seqs = messages.map((one) => one.seq ?? 0);
  const later = seqs.filter((seq) => seq >= next);
  // Only where the drawn part begins before it, so that none in between is missed.
  const isCovered = later.length > 0 && Math.min(...seqs) <= next;
  return isCovered ? Math.min(...later) : next;
}
