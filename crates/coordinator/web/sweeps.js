// Sweeps: how far they are, what goes on by itself, a new one with what it will cost; and the pause of the whole cluster.

import { read, wordsOf, write } from "./api.js";
import { say } from "./dialogs.js";
import { button, byId, fill, make, pairs, table } from "./dom.js";
import { link } from "./route.js";
import { bandwidthText, bytesText, latencyText, many, sinceText, spanText, timeText } from "./words.js";

/** @typedef {import("./api.js").Schemas} Schemas */

/** Reads and shows the whole view; true while a sweep runs. */
export async function showSweeps() {
  const [list, paused] = await Promise.all([
    /** @type {Promise<Schemas["SweepList"]>} */ (read("api/v1/sweeps")), /** @type {Promise<Schemas["PauseView"]>} */ (read("api/v1/pause")),
  ]);
  showPause(paused);
  fill(byId("sweeps", HTMLElement), list, () => [
    continuous("Pings", list.continuous?.pings), continuous("Probes over connections", list.continuous?.connections),
    list.sweeps.length === 0 && make("p", { class: "quiet" }, "No sweep was asked for since the coordinator started."),
    ...list.sweeps.map(sweepView),
  ]);
  return list.sweeps.some((sweep) => sweep.state === "running");
}

// ---- pause ------------------------------------------------------------------------------------------------------------

/** @param {Schemas["PauseView"]} paused */
function showPause(paused) {
  const said = { none: "Nothing is paused.", bandwidth: "Bandwidth probes are paused on the whole cluster.", all: "Every probe is paused on the whole cluster." };
  fill(byId("pause", HTMLElement), paused, () => [
    make("p", { class: paused.cluster === "none" ? "" : "bad" }, said[paused.cluster]),
    paused.nodes.length > 0 && make("ul", {}, ...paused.nodes.map((node) => make("li", {}, make("a", { href: link({ view: "nodes", node: node.node }) }, node.node),
      `: ${node.level}${node.local_file ? ", by its own file" : ""}`))),
    make("p", { class: "buttons" },
      paused.cluster !== "all" && button("Pause every probe", () => void setPause("pause", false), "pause-all"),
      paused.cluster === "none" && button("Pause bandwidth only", () => void setPause("pause", true), "pause-bandwidth"),
      paused.cluster !== "none" && button("Resume", () => void setPause("resume", false), "resume")),
  ]);
}

/** @param {"pause" | "resume"} what @param {boolean} bandwidth */
export async function setPause(what, bandwidth) {
  try {
    await write("POST", `api/v1/${what}`, { bandwidth_only: bandwidth });
    say(what === "pause" ? "Paused." : "It goes on.");
    dispatchEvent(new Event("refresh"));
  } catch (error) {
    say(`Nothing was changed: ${wordsOf(error)}`, true);
  }
}

// ---- what runs --------------------------------------------------------------------------------------------------------

/** @param {string} what @param {Schemas["CoveringView"] | null | undefined} covering */
function continuous(what, covering) {
  if (!covering) return make("p", { class: "quiet" }, `${what}: none go on by themselves.`);
  return make("p", {}, `${what} go on by themselves: ${many(covering.pairs, "pair")} every ${spanText(covering.seconds)}`,
    covering.cross_rail_pairs > 0 && `, ${many(covering.cross_rail_pairs, "pair")} between rails every ${spanText(covering.cross_rail_seconds ?? 0)}`,
    `; ${many(covering.per_second, "probe")} a second, ${bytesText(covering.bytes_per_second)}/s.`);
}

/** @param {Schemas["SweepView"]} sweep */
function sweepView(sweep) {
  const share = sweep.total ? Math.floor(100 * sweep.done / sweep.total) : 0, name = `${sweep.kind} sweep ${sweep.id}: ${sweep.metric}`;
  const text = sweep.metric === "bandwidth" ? bandwidthText : latencyText;
  return make("article", {}, make("h3", {}, `${name}, ${sweep.state}`),
    make("p", {}, make("progress", { max: sweep.total || 1, value: sweep.done, "aria-label": name }), ` ${share} %: ${sweep.done.toLocaleString("en")} of ${many(sweep.total, "pair")}`,
      sweep.seconds_left !== null && sweep.seconds_left !== undefined && `, about ${spanText(sweep.seconds_left)} left`),
    pairs([["Failed", sweep.failed ? String(sweep.failed) : ""], ["Not probed", sweep.excluded ? String(sweep.excluded) : ""],
      ["Began", sinceText(sweep.started_at)], ["Ended", sinceText(sweep.finished_at)], ["Sent", sweep.bytes_sent ? bytesText(sweep.bytes_sent) : ""],
      ["Ended early", sweep.out_of_bytes && "it has sent what it may: coordinator.sweep.gigabytes_max"],
      ["Given up", (sweep.given_up ?? []).join(", ")]]),
    ...(sweep.results ?? []).map((result) => make("details", { "data-key": `${sweep.id} ${result.metric}` },
      make("summary", {}, `${result.metric}: ${result.measured} measured, ${result.failed} failed${result.median ? `, median ${text(result.median)}` : ""}`),
      table(["Source", "Target", "Figure or cause"], result.worst.map((pair) => [pair.source, pair.target, pair.cause ?? text(pair.value)])))));
}

// ---- a new one --------------------------------------------------------------------------------------------------------

function startForm() {
  const metric = make("select", { name: "metric" }, ...["latency", "bandwidth", "ping", "all"].map((word) => make("option", { value: word }, word)));
  const nodes = make("input", { name: "nodes", placeholder: "all", autocomplete: "off" });
  const quick = make("input", { name: "quick", type: "number", min: 1, placeholder: "all" });
  const drained = make("input", { name: "drained", type: "checkbox" }), cross = make("input", { name: "cross", type: "checkbox" });
  const asked = () => ({
    metric: metric.value, drained: drained.checked, cross_rail: cross.checked, ...(quick.value ? { quick: Number(quick.value) } : {}),
    ...(nodes.value.trim() ? { nodes: nodes.value.split(/[\s,]+/).filter(Boolean) } : {}),
  });
  const form = byId("start", HTMLFormElement);
  form.append(make("label", {}, "Metric ", metric), make("label", {}, "Only these nodes ", nodes), make("label", {}, "Peers of each endpoint ", quick),
    make("label", {}, cross, " between rails, too"), make("label", {}, drained, " no job runs on these nodes (drained)"),
    make("button", { type: "submit" }, "What would it cost?"), button("Start", () => void start(asked()), "start"));
  form.addEventListener("submit", (event) => { event.preventDefault(); void plan(asked()); });
}

/** @param {Record<string, unknown>} asked */
async function plan(asked) {
  const place = byId("plan", HTMLElement);
  try {
    /** @type {Schemas["SweepPlan"]} */
    const cost = await write("POST", "api/v1/sweeps", { ...asked, dry_run: true });
    place.replaceChildren(make("p", {}, `${many(cost.pairs, "pair")} of ${many(cost.endpoints ?? 0, "endpoint")} in ${many(cost.rounds, "round")}: about ${spanText(cost.seconds)}, ${bytesText(cost.bytes)}.`,
      (cost.in_maintenance ?? 0) > 0 && ` ${many(cost.in_maintenance ?? 0, "endpoint")} in maintenance stay out.`));
  } catch (error) {
    place.replaceChildren(make("p", { class: "bad" }, wordsOf(error)));
  }
}

/** @param {Record<string, unknown>} asked */
async function start(asked) {
  try {
    /** @type {Schemas["SweepView"]} */
    const begun = await write("POST", "api/v1/sweeps", asked);
    say(`Sweep ${begun.id} begins at ${timeText(begun.started_at)}.`);
    dispatchEvent(new Event("refresh"));
  } catch (error) {
    say(`No sweep begins: ${wordsOf(error)}`, true);
  }
}

startForm();
