// The matrix as numbers: its binary form, which part of it is shown in which order, and how bad each cell is. Draws nothing.

import { bandwidthText, latencyText, shareText } from "./words.js";

/** @typedef {{ names: string[], first: Float32Array[], second: Float32Array[], states: Uint8Array[], generatedAt: number }} Matrix */
/** @typedef {{ rail: string, leaf: string, node: string }} Place */
/** @typedef {"there" | "back" | "worse"} Direction */
/** @typedef {"node" | "rail" | "leaf" | "worst"} Order */
/** @typedef {{ label: string, from: number, to: number }} Group */
/** @typedef {{ low: number, high: number, median: number | null, below: boolean, above: boolean, of: (value: number) => number }} Scale */
/** @typedef {{ at: number[], groups: Group[] }} Arrangement */

/**
 * What the map can show: which matrix, which of its figures, and which end of it is bad.
 * @typedef {{ metric: string, plane: "first" | "second", words: string, text: (value: number) => string, lowIsBad: boolean }} Layer
 * @type {Record<string, Layer>}
 */
export const LAYERS = {
  ping: { metric: "ping", plane: "first", words: "Ping, median network round trip", text: latencyText, lowIsBad: false },
  loss: { metric: "ping", plane: "second", words: "Ping, share lost", text: shareText, lowIsBad: false },
  latency: { metric: "latency", plane: "first", words: "Latency, median half round trip", text: latencyText, lowIsBad: false },
  p99: { metric: "latency", plane: "second", words: "Latency, 99th percentile", text: latencyText, lowIsBad: false },
  bandwidth: { metric: "bandwidth", plane: "first", words: "Bandwidth, average", text: bandwidthText, lowIsBad: true },
};

const [FRESH, STALE, NEVER, FAILED, EXCLUDED] = [..."fsnxe"].map((letter) => letter.charCodeAt(0));

/**
 * Reads the form RSM2, which the API's document describes. Rows are views into the bytes, so nothing is copied.
 * @param {ArrayBuffer} bytes
 * @returns {Matrix}
 */
export function parse(bytes) {
  const head = new DataView(bytes);
  if (bytes.byteLength < 36 || head.getUint32(0) !== 0x52534d32) throw new Error("the answer is no matrix of version RSM2");
  const start = head.getUint32(4, true), count = head.getUint32(24, true), planes = head.getUint8(29);
  const row = Math.ceil(count * (4 * planes + 1) / 4) * 4;
  if (bytes.byteLength !== start + count * row) throw new Error("the matrix was cut short on its way");
  const names = new TextDecoder().decode(new Uint8Array(bytes, 36, head.getUint32(32, true))).split("\n").slice(0, count);
  const floats = (/** @type {number} */ at) => new Float32Array(bytes, at, count);
  /** @type {Matrix} */
  const matrix = { names, first: [], second: [], states: [], generatedAt: Number(head.getBigUint64(16, true)) };
  for (let source = 0; source < count; source++) {
    const at = start + source * row;
    matrix.first.push(floats(at));
    matrix.second.push(floats(planes > 1 ? at + 4 * count : at));
    matrix.states.push(new Uint8Array(bytes, at + 4 * planes * count, count));
  }
  return matrix;
}

const byName = new Intl.Collator("en", { numeric: true });

/**
 * Which endpoints are rows and columns, in which order, and what neighbours have in common.
 * @param {Matrix} matrix
 * @param {(name: string) => Place} placeOf
 * @param {string} rail only this rail; empty for all
 * @param {Order} order
 * @param {Float64Array} badness of each endpoint, for the order "worst"
 * @returns {Arrangement}
 */
export function arrange(matrix, placeOf, rail, order, badness) {
  const places = matrix.names.map(placeOf);
  /** @type {(at: number) => string} */
  const group = (at) => (order === "worst" ? "" : places[at][order]);
  const at = matrix.names.map((_, index) => index).filter((index) => !rail || places[index].rail === rail);
  const name = (/** @type {number} */ index) => matrix.names[index] ?? "";
  // What has no place stands last: nobody looks for it there first.
  const last = (/** @type {string} */ label) => (label === "" ? 1 : 0);
  at.sort((a, b) => (order === "worst" ? badness[b] - (badness[a])
    : last(group(a)) - last(group(b)) || byName.compare(group(a), group(b))) || byName.compare(name(a), name(b)));
  /** @type {Group[]} */
  const groups = [];
  if (order !== "worst") {
    at.forEach((index, row) => {
      const label = group(index) || `no ${order} known`, before = groups.at(-1);
      if (before?.label === label) before.to = row + 1;
      else groups.push({ label, from: row, to: row + 1 });
    });
  }
  return { at, groups };
}

/**
 * The range of the fresh figures, on a logarithmic scale. One outlier does not make all others look alike: what lies far from the median
 * has the colour of the end, and the legend says so.
 * @param {Matrix} matrix
 * @param {Layer} layer
 * @param {number[]} at the endpoints that are shown
 * @returns {Scale | null} nothing where nothing is fresh
 */
export function scaleOf(matrix, layer, at) {
  let low = Infinity, high = 0;
  const some = [], step = Math.max(1, Math.floor(at.length * at.length / 65_536));
  for (let row = 0, seen = 0; row < at.length; row++) {
    const values = matrix[layer.plane][at[row]], states = matrix.states[at[row]];
    for (const target of at) {
      const value = values[target];
      if (states[target] !== FRESH || Number.isNaN(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
      if (seen++ % step === 0) some.push(value);
    }
  }
  if (some.length === 0) return null;
  const median = some.sort((a, b) => a - b)[Math.floor(some.length / 2)];
  if (layer.text === shareText) return lossScale(median);
  const bounds = bounded(low, high, median);
  return { ...bounds, median, below: low < bounds.low, above: high > bounds.high, of: logarithmic(bounds.low, bounds.high) };
}

/** @param {number} low @param {number} high @param {number} median */
function bounded(low, high, median) {
  const from = Math.max(low, median / 8, Number.MIN_VALUE), to = Math.min(high, median * 8);
  // A range below a factor of two would paint noise in full contrast.
  return to < from * 2 ? { low: Math.min(from, median / Math.SQRT2), high: Math.max(to, median * Math.SQRT2) } : { low: from, high: to };
}

/** @param {number} low @param {number} high */
const logarithmic = (low, high) => {
  const width = Math.log(high / low);
  return (/** @type {number} */ value) => Math.min(1, Math.max(0, Math.log(value / low) / width));
};

/** No loss is the one good end; from one in a thousand on it shows. @param {number} median @returns {Scale} */
function lossScale(median) {
  const of = logarithmic(0.001, 1);
  return { low: 0, high: 1, median, below: false, above: false, of: (value) => (value > 0 ? 0.3 + 0.7 * of(value) : 0) };
}

/** How a cell is painted, from the best to the worst; where there is room for fewer points than cells, the worst of them is shown. */
export const CODE = { self: 0, never: 1, excluded: 2, bare: 3, stale: 4, fresh: 68, failed: 255 };
/** Shades of stale and of fresh cells. */
export const SHADES = { stale: 64, fresh: 128 };

/** @param {number} state @param {number} value @param {Scale | null} scale @param {boolean} lowIsBad @returns {number} */
function codeOf(state, value, scale, lowIsBad) {
  if (state === FAILED) return CODE.failed;
  if (state === NEVER) return CODE.never;
  if (state === EXCLUDED) return CODE.excluded;
  if (state !== FRESH && state !== STALE) return CODE.self;
  if (Number.isNaN(value) || !scale) return CODE.bare;
  const share = lowIsBad ? 1 - scale.of(value) : scale.of(value);
  return state === FRESH ? CODE.fresh + Math.round(share * (SHADES.fresh - 1)) : CODE.stale + Math.round(share * (SHADES.stale - 1));
}

/**
 * The codes of all cells that are shown, row by row.
 * @param {Matrix} matrix
 * @param {Layer} layer
 * @param {Scale | null} scale
 * @param {number[]} at
 * @param {Direction} direction
 */
export function codesOf(matrix, layer, scale, at, direction) {
  const count = at.length, codes = new Uint8Array(count * count), values = matrix[layer.plane];
  for (let row = 0; row < count; row++) {
    const source = at[row], own = values[source], states = matrix.states[source];
    for (let column = 0; column < count; column++) {
      const target = at[column];
      codes[row * count + column] = codeOf(states[target], own[target], scale, layer.lowIsBad);
    }
  }
  if (direction !== "there") turn(codes, count, direction === "worse");
  return codes;
}

/** Swaps the two directions of each pair, or shows the worse one in both. @param {Uint8Array} codes @param {number} count @param {boolean} worse */
function turn(codes, count, worse) {
  for (let row = 0; row < count; row++) {
    for (let column = row + 1; column < count; column++) {
      const a = row * count + column, b = column * count + row, there = codes[a], back = codes[b];
      codes[a] = worse ? Math.max(there, back) : back;
      codes[b] = worse ? Math.max(there, back) : there;
    }
  }
}

/** How bad each endpoint is as a source and as a target: failed pairs count most. @param {Uint8Array} codes @param {number[]} at @param {number} total */
export function badnessOf(codes, at, total) {
  const badness = new Float64Array(total), count = at.length;
  for (let row = 0; row < count; row++) {
    for (let column = 0; column < count; column++) {
      const code = codes[row * count + column];
      const weight = code === CODE.failed ? 10 : code >= CODE.fresh ? ((code - CODE.fresh) / SHADES.fresh) ** 2 : 0;
      for (const end of [at[row], at[column]]) badness[end] += weight;
    }
  }
  return badness;
}

/**
 * Half as many points along each side; each is the worst of four.
 * @param {Uint8Array} codes
 * @param {number} count
 */
export function halved(codes, count) {
  const half = Math.ceil(count / 2), out = new Uint8Array(half * half);
  for (let row = 0; row < count; row++) {
    const into = (row >> 1) * half;
    for (let column = 0; column < count; column++) {
      const code = codes[row * count + column], at = into + (column >> 1);
      if (code > out[at]) out[at] = code;
    }
  }
  return { codes: out, count: half };
}

/** Cells by state letter. @param {Matrix} matrix @param {number[]} at @returns {Record<string, number>} */
export function countStates(matrix, at) {
  const counts = new Float64Array(256);
  for (const source of at) for (const target of at) counts[matrix.states[source][target]]++;
  return Object.fromEntries([..."fsnxe"].map((letter) => [letter, counts[letter.charCodeAt(0)]]));
}

/**
 * The worst pairs as [source, target] of the matrix, failed ones first.
 * @param {Matrix} matrix
 * @param {Layer} layer
 * @param {Uint8Array} codes of the direction "there"
 * @param {number[]} at
 * @param {number} max
 * @returns {[number, number][]}
 */
export function worstPairs(matrix, layer, codes, at, max) {
  const counts = new Float64Array(256), count = at.length;
  for (const code of codes) counts[code]++;
  let least = 256, found = 0;
  while (least > CODE.stale && found < max) found += counts[--least];
  /** @type {{ pair: [number, number], code: number, value: number }[]} */
  const worst = [];
  for (let cell = 0; cell < codes.length; cell++) {
    const code = codes[cell];
    // A whole cluster at one shade must not make a list of a million.
    if (code < least || (code === least && worst.length > 4 * max)) continue;
    const pair = /** @type {[number, number]} */ ([at[Math.floor(cell / count)], at[cell % count]]);
    worst.push({ pair, code, value: matrix[layer.plane][pair[0]][pair[1]] });
  }
  const sign = layer.lowIsBad ? -1 : 1;
  worst.sort((a, b) => b.code - a.code || sign * ((b.value || 0) - (a.value || 0)));
  return worst.slice(0, max).map(({ pair }) => pair);
}

/** A cell in words. @param {Matrix} matrix @param {Layer} layer @param {number} source @param {number} target */
export function cell(matrix, layer, source, target) {
  const letter = String.fromCharCode(matrix.states[source][target]);
  const value = matrix[layer.plane][source][target];
  return { letter, value, source: matrix.names[source] ?? "", target: matrix.names[target] ?? "" };
}
