// The panel of one pair: both directions, its history, what both ends say of themselves, the last probe's steps, and a probe now.

import { pairPath, read, wordsOf, write } from "./api.js";
import { ask, say } from "./dialogs.js";
import { badge, button, byId, fill, make } from "./dom.js";
import { failureView, figures } from "./figures.js";
import { historyView, readHistory } from "./history.js";
import { LAYERS } from "./matrix.js";
import { go, link, route } from "./route.js";
import { nodeOf } from "./words.js";

/** @typedef {import("./api.js").Schemas} Schemas */

const FINDINGS_MAX = 20;
const BETWEEN_LOOKS = 400;

const body = byId("pair-body", HTMLElement);
/** The pair whose panel was filled last, and the probe of it that runs. */
const state = { shown: "", probing: 0 };

/** Reads and shows the pair of the address. */
export async function showPair() {
  const { pair } = route();
  if (!pair) return;
  const key = pair.join(" ");
  try {
    const shown = await readPair(pair);
    if (route().pair?.join(" ") !== key) return;
    fill(body, shown, () => panel(pair, shown));
    // A person that has just chosen it wants to read it.
    if (state.shown !== key) byId("pair", HTMLElement).scrollIntoView({ block: "nearest" });
    state.shown = key;
  } catch (error) {
    fill(body, wordsOf(error), () => [make("p", { class: "bad" }, `The pair could not be read: ${wordsOf(error)}`), closer()]);
  }
}

/** @param {[string, string]} pair */
async function readPair([source, target]) {
  const metric = LAYERS[route().layer]?.metric ?? "ping", ends = [...new Set([source, target].map(nodeOf))];
  const [there, back, history, probes, ...findings] = await Promise.all([
    /** @type {Promise<Schemas["PairView"]>} */ (read(pairPath(source, target))), /** @type {Promise<Schemas["PairView"]>} */ (read(pairPath(target, source))),
    readHistory(source, target, metric), /** @type {Promise<Schemas["ProbeList"]>} */ (read(`api/v1/probes?source=${encodeURIComponent(source)}&target=${encodeURIComponent(target)}&limit=1`)),
    ...ends.map((node) => /** @type {Promise<Schemas["FindingList"]>} */ (read(`api/v1/findings?node=${encodeURIComponent(node)}&limit=${FINDINGS_MAX}`))),
  ]);
  return { there, back, history, probe: probes.probes[0] ?? null, findings: findings.map((list, at) => ({ node: ends[at], list })) };
}

/** @typedef {Awaited<ReturnType<typeof readPair>>} Shown */

const closer = () => button("Close", () => go({ pair: null }), "close");

/** @param {[string, string]} pair @param {Shown} shown */
function panel(pair, { there, back, history, probe, findings }) {
  const [source, target] = pair;
  return [
    make("p", {}, make("code", {}, source), " → ", make("code", {}, target)),
    make("p", { class: "buttons" }, button("Probe now …", () => void probeNow(pair), "probe"),
      button("Other direction", () => go({ pair: [target, source] }), "other"), closer()),
    figures(there, back),
    historyView(history, pair),
    ...findings.map(({ node, list }) => findingsOf(node, list, pair)),
    make("h3", {}, "Last probe that somebody asked for"),
    ...(probe ? stepsView(probe) : [make("p", { class: "quiet" }, "None of this pair is kept; the steps of the last 64 are.")]),
  ];
}

/** @param {string} node @param {Schemas["FindingList"]} list @param {[string, string]} pair */
function findingsOf(node, list, pair) {
  const own = pair.filter((end) => nodeOf(end) === node).map((end) => end.slice(node.length + 1));
  // What is about the port itself comes first.
  const about = (/** @type {Schemas["NodeFinding"]} */ found) => (own.includes(found.subject) ? 0 : 1);
  const sorted = list.findings.slice().sort((a, b) => about(a) - about(b));
  return make("div", {}, make("h3", {}, "What ", make("a", { href: link({ view: "nodes", node }) }, node), " says of itself"),
    sorted.length === 0 ? make("p", { class: "quiet" }, "Its agent tells of nothing that is wrong.")
      : make("ul", { class: "plain" }, ...sorted.map((found) => make("li", {}, badge(found.status), ` ${found.subject}: ${found.summary} `,
        make("span", { class: "next" }, found.next_step)))),
    (list.left_out ?? 0) > 0 && make("p", { class: "quiet" }, `and ${list.left_out} more`));
}

/** @param {Schemas["ProbeView"]} probe */
function stepsView(probe) {
  return [
    make("p", {}, `${probe.metric}: ${probe.state}${probe.excluded ? ` (${probe.excluded})` : ""}`),
    make("ol", { class: "steps" }, ...probe.steps.map((step) => make("li", {}, make("span", { class: "quiet" }, `${step.at_ms} ms ${step.side} `),
      `${step.step}: ${step.text}`))),
    probe.failure && failureView("It failed", probe.failure),
  ];
}

/** @param {[string, string]} pair */
async function probeNow([source, target]) {
  const answer = await ask({
    title: "Probe now", text: `${source} → ${target}. Bandwidth fills the port for a quarter of a second; it is measured only where no job is.`,
    fields: [{ name: "metric", label: "Measure", value: "latency", choices: [["latency", "latency"], ["ping", "pings, small and large"], ["bandwidth", "bandwidth"], ["all", "latency and bandwidth"]] }],
    confirm: "Probe",
  });
  if (!answer) return;
  try {
    /** @type {Schemas["ProbeView"]} */
    const begun = await write("POST", "api/v1/probes", { source, target, metric: answer.metric });
    say(`Probe ${begun.id} begins.`);
    await follow(begun.id);
  } catch (error) {
    say(`Nothing was probed: ${wordsOf(error)}`, true);
  }
}

/** Shows the steps as they come. @param {number} id */
async function follow(id) {
  state.probing = id;
  for (;;) {
    /** @type {Schemas["ProbeView"]} */
    const probe = await read(`api/v1/probes/${id}`);
    await showPair();
    if (state.probing !== id) return;
    if (!["waiting", "running"].includes(probe.state)) {
      // The map and the table have the old figure.
      dispatchEvent(new Event("refresh"));
      say(`Probe ${id}: ${probe.state}${probe.failure ? `: ${probe.failure.text}` : ""}${probe.excluded ? `: ${probe.excluded}` : ""}`, probe.state === "failed");
      return;
    }
    await new Promise((done) => setTimeout(done, BETWEEN_LOOKS));
  }
}

/** The panel without a pair. */
export function closePair() {
  state.shown = "";
  fill(body, null, () => [make("p", { class: "quiet" }, "Choose a cell of the map, or a pair of the table, to see both directions of it.")]);
}

