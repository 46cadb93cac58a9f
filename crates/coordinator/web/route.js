// What is looked at, kept in the address, so that it can be sent to somebody: view, node, pair, and how the map is set.

import { LAYERS } from "./matrix.js";

/** @typedef {"now" | "nodes" | "sweeps"} View */
/**
 * @typedef {object} Route
 * @property {View} view
 * @property {string} node
 * @property {string} layer a key of LAYERS; empty: whatever is measured
 * @property {string} rail
 * @property {import("./matrix.js").Order} order
 * @property {import("./matrix.js").Direction} direction
 * @property {[string, string] | null} pair
 */

/** @template {string} T @param {readonly T[]} known @param {string | null} word @returns {T} the first one where there is no such word */
const oneOf = (known, word) => known.find((one) => one === word) ?? known[0];

const VIEWS = /** @type {const} */ (["now", "nodes", "sweeps"]);
const ORDERS = /** @type {const} */ (["node", "rail", "leaf", "worst"]);
const DIRECTIONS = /** @type {const} */ (["there", "back", "worse"]);

/** What the address says; what it says wrongly is as if it said nothing. @returns {Route} */
export function route() {
  const told = new URLSearchParams(location.hash.slice(1)), node = told.get("node") ?? "";
  const [source, target] = [told.get("source"), told.get("target")], layer = told.get("layer") ?? "";
  return {
    view: node && !told.get("view") ? "nodes" : oneOf(VIEWS, told.get("view")),
    node, layer: layer in LAYERS ? layer : "", rail: told.get("rail") ?? "", order: oneOf(ORDERS, told.get("order")),
    direction: oneOf(DIRECTIONS, told.get("direction")), pair: source && target ? [source, target] : null,
  };
}

/** The address with some of it changed; the rest stays. @param {Partial<Route>} changes */
export function link(changes) {
  const next = { ...route(), ...changes }, told = new URLSearchParams();
  for (const name of /** @type {const} */ (["view", "node", "layer", "rail", "order", "direction"])) if (next[name]) told.set(name, next[name]);
  if (next.pair) {
    told.set("source", next.pair[0]);
    told.set("target", next.pair[1]);
  }
  return `#${told}`;
}

/** Goes there. @param {Partial<Route>} changes */
export function go(changes) {
  const hash = link(changes);
  if (hash !== location.hash) location.hash = hash;
}
