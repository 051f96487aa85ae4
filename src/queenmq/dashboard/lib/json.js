/**
 * JSON whose numbers stay as they were written. 12345678901234567890 and 1.0 are not what JavaScript would make of
 * them, and a payload that is shown or sent must not change.
 */

/** @typedef {{rawJSON: string}} RawNumber */

const json = /** @type {{rawJSON?: (text: string) => RawNumber, isRawJSON?: (value: unknown) => boolean} & typeof JSON} */ (JSON);

/** Whether a value is a number that is kept as text. @param {unknown} value @returns {value is RawNumber} */
export const isRawNumber = (value) => json.isRawJSON?.(value) ?? false;

/**
 * Parse text; a number that would change becomes a raw one, which `JSON.stringify` writes as it was.
 * A browser that does not know these gets plain numbers.
 * @param {string} text
 */
export function parseExact(text) {
  /** @type {(key: string, value: unknown, context?: {source?: string}) => unknown} */
  const keep = (_, value, context) => {
    const source = context?.source;
    return typeof value === "number" && source !== undefined && json.rawJSON && String(value) !== source ? json.rawJSON(source) : value;
  };
  return JSON.parse(text, /** @type {(key: string, value: unknown) => unknown} */ (keep));
}
