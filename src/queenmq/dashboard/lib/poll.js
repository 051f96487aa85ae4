/**
 * The one scheduler: every look at the API that repeats goes through `useResource`.
 *
 * It pauses while the page is hidden, aborts when the component leaves, backs off while requests fail, and keeps
 * the last good answer beside the error, so that a page shows old numbers as old, and never as zero.
 */
import { connection } from "./store.js";
import { useEffect, useRef, useState } from "./ui.js";

const BACK_OFF_MAX_MS = 30_000;
/** A look that takes the broker long is repeated less often: it costs at most this part of the time. */
const BUSY_SHARE = 0.1;
const SLOW_MAX_MS = 60_000;

/**
 * @template T
 * @typedef {{data: T | null, error: unknown, isLoading: boolean, at: number, reload: () => void}} Resource
 * `at`: when `data` arrived, 0 before that.
 */

/**
 * How long to wait before the next look. The first failure is retried soon, later ones ever later.
 * @param {number} everyMs
 * @param {number} failures
 * @param {number} [retryAfterMs] What the server asked for.
 * @param {number} [tookMs] How long the last answer took.
 */
export function nextDelayMs(everyMs, failures, retryAfterMs = 0, tookMs = 0) {
  if (failures === 0) return Math.max(everyMs, Math.min(SLOW_MAX_MS, tookMs / BUSY_SHARE));
  const backOff = Math.min(BACK_OFF_MAX_MS, 1_000 * 2 ** (failures - 1));
  return Math.max(backOff, retryAfterMs);
}

/**
 * Load something now, and again every `everyMs` (0: never) and whenever the page is shown again. A failed load is
 * retried. `inputs` that change start over with no data.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {{everyMs?: number, inputs?: unknown[], keep?: boolean}} [options] `keep`: show old data while new loads.
 * @returns {Resource<T>}
 */
export function useResource(load, { everyMs = 0, inputs = [], keep = false } = {}) {
  const [state, setState] = useState(/** @type {{data: T | null, error: unknown, isLoading: boolean, at: number}} */ ({
    data: null, error: null, isLoading: true, at: 0,
  }));
  const loadRef = useRef(load);
  loadRef.current = load;
  const kick = useRef(() => {});
  useEffect(() => {
    const task = repeat((signal) => loadRef.current(signal), {
      everyMs,
      onData: (data) => setState({ data, error: null, isLoading: false, at: Date.now() }),
      onError: (error) => setState((last) => ({ ...last, error, isLoading: false })),
    });
    kick.current = task.kick;
    setState((last) => (keep ? { ...last, isLoading: true } : { data: null, error: null, isLoading: true, at: 0 }));
    return task.stop;
  }, [everyMs, ...inputs]);
  return { ...state, reload: () => kick.current() };
}

/**
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {{everyMs: number, onData: (data: T) => void, onError: (error: unknown) => void}} options
 */
function repeat(load, { everyMs, onData, onError }) {
  const left = new AbortController();
  let failures = 0;
  let timer = 0;
  let isRunning = false;

  async function run() {
    clearTimeout(timer);
    if (isRunning || left.signal.aborted || document.hidden) return;
    isRunning = true;
    let retryAfterMs = 0;
    const began = performance.now();
    try {
      const data = await load(left.signal);
      failures = 0;
      if (!left.signal.aborted) onData(data);
    } catch (error) {
      if (left.signal.aborted) return;
      failures += 1;
      retryAfterMs = 1000 * Number(/** @type {{retryAfterS?: number}} */ (error).retryAfterS ?? 0);
      onError(error);
    } finally {
      isRunning = false;
    }
    if (!left.signal.aborted && (everyMs || failures)) {
      timer = setTimeout(run, nextDelayMs(everyMs, failures, retryAfterMs, performance.now() - began));
    }
  }

  // A page that is shown again is brought up to date at once, and so is one whose broker is back.
  const onVisible = () => void (document.hidden || run());
  document.addEventListener("visibilitychange", onVisible, { signal: left.signal });
  const unsubscribe = connection.subscribe(({ isLost }) => void (isLost || failures === 0 || run()));
  run();
  return {
    kick: run,
    stop() {
      clearTimeout(timer);
      unsubscribe();
      left.abort();
    },
  };
}
