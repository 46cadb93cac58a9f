// The map of all pairs: what of it is chosen, what the cells under it say, its legend, and the table of the worst pairs.

import { pairPath, read, readBytes } from "./api.js";
import { MapCanvas, zoomBy } from "./canvas.js";
import { drawRamp, sample, theme } from "./colours.js";
import { byId, button, fill, make, table } from "./dom.js";
import { CODE, LAYERS, arrange, badnessOf, cell, codesOf, countStates, parse, scaleOf, worstPairs } from "./matrix.js";
import { go, route } from "./route.js";
import { STATES, many } from "./words.js";

/** @typedef {import("./api.js").Schemas} Schemas */
/** @typedef {import("./matrix.js").Matrix} Matrix */
/** @typedef {import("./matrix.js").Place} Place */
/** @typedef {import("./canvas.js").At} At */

/** Fewer endpoints than this leave room in a frame of the usual height. */
const FEW = 9;
/** Rows of the table of the worst pairs. */
const WORST_MAX = 50;
/** Failed ones of them of which the cause is asked for. */
const CAUSES_MAX = 10;
const NOWHERE = Object.freeze({ rail: "", leaf: "", node: "" });

const state = {
  /** @type {Map<string, { etag: string | null, matrix: Matrix }>} */
  matrices: new Map(),
  /** @type {Map<string, Place>} */
  places: new Map(),
  /** @type {{ matrix: Matrix, layer: import("./matrix.js").Layer, scale: import("./matrix.js").Scale | null, at: number[] } | null} */
  shown: null,
  pool: 1,
  // The metric that is kept fresh: pings where there are some.
  layer: "latency",
};

const layerOf = () => route().layer || state.layer;
const tip = byId("tip", HTMLElement);
const map = new MapCanvas(byId("matrix", HTMLCanvasElement), {
  moved: (at, byKey, point) => moved(at, byKey, point),
  opened: (at) => { const pair = namesAt(at); if (pair && pair[0] !== pair[1]) go({ pair }); },
  zoomed: (pool) => { state.pool = pool; legend(); },
});

// ---- what is chosen ---------------------------------------------------------------------------------------------------

/** @param {string} label @param {string} name @param {[string, string][]} choices @param {string} value @param {(value: string) => void} change */
function choice(label, name, choices, value, change) {
  const select = make("select", { name, "data-key": name, change: () => change(select.value) },
    ...choices.map(([word, words]) => make("option", { value: word, selected: word === value }, words)));
  return make("label", {}, label, " ", select);
}

function controls() {
  const { rail, order, direction } = route(), layer = layerOf();
  const rails = [...new Set([...state.places.values()].map((place) => place.rail))].filter(Boolean).sort(new Intl.Collator("en", { numeric: true }).compare);
  const layers = Object.entries(LAYERS).map(([name, { words }]) => /** @type {[string, string]} */ ([name, words]));
  fill(byId("controls", HTMLFormElement), [layer, rails, rail, order, direction], () => [
    choice("Metric", "layer", layers, layer, (value) => go({ layer: value })),
    choice("Direction", "direction", [["there", "row → column"], ["back", "column → row"], ["worse", "the worse of both"]], direction,
      (value) => go({ direction: /** @type {import("./matrix.js").Direction} */ (value) })),
    choice("Rail", "rail", [["", rails.length ? "all" : "none is known"], ...rails.map((name) => /** @type {[string, string]} */ ([name, name]))], rail,
      (value) => go({ rail: value })),
    choice("Order", "order", [["node", "by node"], ["rail", "by rail"], ["leaf", "by leaf"], ["worst", "worst first"]], order,
      (value) => go({ order: /** @type {import("./matrix.js").Order} */ (value) })),
    make("a", { href: `api/v1/matrix?metric=${LAYERS[layer].metric}&format=csv`, download: `${LAYERS[layer].metric}.csv` }, "All pairs as CSV"),
  ]);
}

/** Where endpoints stand. @param {Schemas["EndpointView"][]} endpoints */
export function showPlaces(endpoints) {
  const before = JSON.stringify([...state.places]);
  state.places = new Map(endpoints.map((endpoint) => [endpoint.name,
    { rail: endpoint.place?.rail ?? "", leaf: endpoint.place?.leaf ?? "", node: endpoint.node }]));
  if (JSON.stringify([...state.places]) !== before) showMap();
}

// ---- reading and drawing ----------------------------------------------------------------------------------------------

/** Reads the matrix that is shown, if it has changed. Says how long to wait until it is worth reading again, milliseconds. */
export async function loadMap() {
  const began = performance.now(), { metric } = LAYERS[layerOf()], before = state.matrices.get(metric);
  const answer = await readBytes(`api/v1/matrix?metric=${metric}&format=bin`, before?.etag ?? null);
  if (answer) {
    state.matrices.set(metric, { etag: answer.etag, matrix: parse(answer.bytes) });
    showMap();
  }
  // A large matrix costs the coordinator and this page something: at most a tenth of the time goes into it.
  return Math.min(60_000, Math.max(5_000, 10 * (performance.now() - began)));
}

/** Pings are shown first where they are what is kept fresh. */
export async function chooseLayer() {
  /** @type {Schemas["SweepList"]} */
  const { continuous } = await read("api/v1/sweeps");
  state.layer = continuous?.pings ? "ping" : "latency";
}

/** Draws what is there, as it is wanted now. */
export function showMap() {
  controls();
  const layer = LAYERS[layerOf()], matrix = state.matrices.get(layer.metric)?.matrix;
  if (!matrix) {
    byId("numbers", HTMLElement).textContent = "The matrix is on its way …";
    return;
  }
  const { rail, order, direction } = route(), placeOf = (/** @type {string} */ name) => state.places.get(name) ?? { ...NOWHERE, node: name.split("/")[0] };
  let { at, groups } = arrange(matrix, placeOf, rail, order === "worst" ? "node" : order, new Float64Array(0));
  const scale = scaleOf(matrix, layer, at);
  let codes = codesOf(matrix, layer, scale, at, "there");
  const worst = worstPairs(matrix, layer, codes, at, WORST_MAX);
  if (order === "worst") ({ at, groups } = arrange(matrix, placeOf, rail, order, badnessOf(codes, at, matrix.names.length)));
  if (order === "worst" || direction !== "there") codes = codesOf(matrix, layer, scale, at, direction);
  state.shown = { matrix, layer, scale, at };
  const frame = byId("frame", HTMLElement);
  frame.hidden = at.length === 0;
  // A few endpoints need no large frame.
  frame.style.height = at.length < FEW ? `${150 + at.length * 74}px` : "";
  map.show({ codes, labels: at.map((index) => matrix.names[index]), groups, text: textAt, colours: theme() });
  showChosen();
  numbers();
  legend();
  showWorst(worst);
}

/** The pair of the address in a frame. */
export function showChosen() {
  const { pair } = route(), shown = state.shown;
  if (!pair || !shown) return map.choose(null);
  const rows = pair.map((name) => shown.at.findIndex((index) => shown.matrix.names[index] === name));
  map.choose(rows.includes(-1) ? null : [rows[0], rows[1]]);
}

function numbers() {
  if (!state.shown) return;
  const { matrix, at, layer, scale } = state.shown, counts = countStates(matrix, at);
  const parts = Object.entries(counts).filter(([, count]) => count > 0).map(([letter, count]) => `${count.toLocaleString("en")} ${STATES[letter]}`);
  byId("numbers", HTMLElement).textContent = at.length === 0
    ? "No endpoint has registered yet. Start an agent: rdmascope agent --coordinator HOST:PORT"
    : `${layer.words}, from source (row) to target (column). ${many(at.length, "endpoint")}: ${parts.join(", ") || "no pairs"}.`
      + `${scale?.median !== null && scale ? ` Median ${layer.text(scale.median)}.` : ""}`;
}

function legend() {
  if (!state.shown) return;
  const { scale, layer } = state.shown, colours = theme();
  fill(byId("legend", HTMLElement), [scale, layer.words, colours, state.pool], () => {
    const ramp = make("canvas", { class: "ramp", "aria-hidden": "true" });
    drawRamp(ramp, colours);
    const ends = scale && [`${scale.below ? "≤ " : ""}${layer.text(scale.low)}`, `${scale.above ? "≥ " : ""}${layer.text(scale.high)}`];
    if (ends && layer.lowIsBad) ends.reverse();
    const shapes = [[CODE.failed, "failed ✕"], [CODE.stale + 12, "stale •"], [CODE.never, "never measured □"], [CODE.excluded, "not probed –"], [CODE.self, "itself"]];
    return [
      ends ? make("p", { class: "scale" }, make("span", {}, `good ${ends[0]}`), ramp, make("span", {}, `${ends[1]} bad`))
        : make("p", { class: "quiet" }, "Nothing is fresh, so there is no scale."),
      make("ul", {}, ...shapes.map(([code, words]) => make("li", {}, sample(Number(code), colours), String(words)))),
      state.pool > 1 && make("p", { class: "quiet" }, `Each point is the worst of ${state.pool} × ${state.pool} pairs; zoom in to see each.`),
    ];
  });
}

// ---- the cell under the pointer ---------------------------------------------------------------------------------------

/** @param {At} at */
function endsAt([row, column]) {
  const shown = state.shown;
  if (!shown || row >= shown.at.length || column >= shown.at.length) return null;
  const ends = [shown.at[row], shown.at[column]];
  if (route().direction === "back") ends.reverse();
  return { shown, source: ends[0], target: ends[1] };
}

/** @param {At} at @returns {[string, string] | null} */
function namesAt(at) {
  const ends = endsAt(at);
  return ends && [ends.shown.matrix.names[ends.source], ends.shown.matrix.names[ends.target]];
}

/** @param {At} at */
function textAt(at) {
  const ends = endsAt(at);
  if (!ends || ends.source === ends.target) return "";
  const { value } = cell(ends.shown.matrix, ends.shown.layer, ends.source, ends.target);
  return Number.isNaN(value) ? "" : ends.shown.layer.text(value);
}

/** @param {{ matrix: Matrix, layer: import("./matrix.js").Layer }} shown @param {number} source @param {number} target */
function wordsOfCell({ matrix, layer }, source, target) {
  const { letter, value } = cell(matrix, layer, source, target);
  return `${STATES[letter] ?? letter}${Number.isNaN(value) ? "" : ` ${layer.text(value)}`}`;
}

/** @param {At} at */
function describe(at) {
  const ends = endsAt(at);
  if (!ends) return "";
  const { shown, source, target } = ends, [from, to] = [shown.matrix.names[source], shown.matrix.names[target]];
  if (source === target) return `${from}: an endpoint is not paired with itself`;
  return `${from} → ${to}: ${wordsOfCell(shown, source, target)}; back: ${wordsOfCell(shown, target, source)}`;
}

/** @param {At | null} at @param {boolean} byKey @param {[number, number]} point */
function moved(at, byKey, point) {
  const words = at ? describe(at) : "";
  // Only what keys do is read aloud: a pointer would never let the reader finish.
  byId("under", HTMLElement).textContent = byKey ? words : "";
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  const frame = byId("frame", HTMLElement);
  const free = frame.clientWidth - tip.offsetWidth - 8;
  tip.style.left = `${Math.max(4, Math.min(free, point[0] + 14))}px`;
  tip.style.top = `${point[1] + 18 + tip.offsetHeight > frame.clientHeight ? point[1] - tip.offsetHeight - 12 : point[1] + 18}px`;
}

// ---- the same as a table ----------------------------------------------------------------------------------------------

/** @type {Map<string, { at: number, text: string }>} */
const causes = new Map();

/** @param {[number, number][]} worst */
function showWorst(worst) {
  if (!state.shown) return;
  const { matrix, layer, scale } = state.shown;
  const median = scale?.median;
  const rows = worst.map(([source, target]) => {
    const { letter, value, ...names } = cell(matrix, layer, source, target);
    const ratio = median && !Number.isNaN(value) ? `${(value / median).toFixed(2)} ×` : "";
    return { ...names, state: STATES[letter] ?? letter, figure: Number.isNaN(value) ? "" : layer.text(value), ratio,
      cause: letter === "x" ? causes.get(`${layer.metric} ${names.source} ${names.target}`)?.text ?? "" : "" };
  });
  fill(byId("worst", HTMLElement), [rows, layer.words], () => [
    rows.length ? table(["Source", "Target", "State", layer.words, "Of the median", "What happened, and what to do"], rows.map((row) => [
      button(row.source, () => go({ pair: [row.source, row.target] }), `worst ${row.source} ${row.target}`), row.target, row.state, row.figure, row.ratio, row.cause]))
      : make("p", { class: "quiet" }, "No pair is measured yet."),
  ]);
  const failed = rows.filter((row) => row.state === STATES.x).slice(0, CAUSES_MAX);
  void findCauses(layer.metric, failed).then((news) => { if (news) showWorst(worst); });
}

/** The binary form holds no causes; those of the few failed pairs in the table are asked for, at most once a minute. @param {string} metric @param {{ source: string, target: string }[]} failed */
async function findCauses(metric, failed) {
  const old = Date.now() - 60_000;
  const wanted = failed.filter(({ source, target }) => (causes.get(`${metric} ${source} ${target}`)?.at ?? 0) < old);
  for (const { source, target } of wanted) {
    const key = `${metric} ${source} ${target}`;
    causes.set(key, { at: Date.now(), text: causes.get(key)?.text ?? "" });
    /** @type {Schemas["PairView"]} */
    const pair = await read(pairPath(source, target));
    const { failure } = pair[/** @type {"ping" | "latency" | "bandwidth"} */ (metric)];
    causes.set(key, { at: Date.now(), text: failure ? `${failure.text} (step ${failure.step}, ${failure.side}) ${failure.next_step}` : "" });
  }
  return wanted.length > 0;
}

byId("zoom", HTMLElement).append(
  make("button", { type: "button", "aria-label": "Zoom in", click: () => zoomBy(map, 1) }, "+"),
  make("button", { type: "button", "aria-label": "Zoom out", click: () => zoomBy(map, -1) }, "−"),
  make("button", { type: "button", click: () => map.fit() }, "All"));
byId("controls", HTMLFormElement).addEventListener("submit", (event) => event.preventDefault());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showMap);
