/**
 * The one place that knows which library draws. Views import `html` and hooks from here.
 */
import htm from "../vendor/htm.js";
import { h } from "../vendor/preact.js";

export { Component, Fragment, createContext, render } from "../vendor/preact.js";
export {
  useCallback, useContext, useEffect, useErrorBoundary, useId, useLayoutEffect, useMemo, useReducer, useRef, useState,
} from "../vendor/hooks.js";

/**
 * Markup as a tagged template. Values become text or attributes, never markup: there is nothing to escape.
 * Use `class`, `onClick`, and `<${Component} prop=${value} />`.
 */
export const html = htm.bind(h);

/**
 * Join the class names that hold.
 * @param {...(string | false | null | undefined)} names
 */
export const classes = (...names) => names.filter(Boolean).join(" ");
