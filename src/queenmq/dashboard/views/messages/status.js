/**
 * The states of a message in words and tones.
 */
const WORDS = { pending: "pending", processing: "under lease", completed: "consumed", dead_letter: "dead letter" };

/** @type {Record<string, import("../../components/basics.js").Tone>} */
const TONES = { pending: "neutral", processing: "accent", completed: "good", dead_letter: "danger" };

/** @param {string} status */
export const statusWord = (status) => WORDS[/** @type {keyof typeof WORDS} */ (status)] ?? status;

/** @param {string} status */
export const statusTone = (status) => TONES[status] ?? "neutral";
