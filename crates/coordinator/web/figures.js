// The figures of a pair in both directions side by side, and why its last probe failed.

import { make } from "./dom.js";
import { agoText, bandwidthText, latencyText, shareText } from "./words.js";

/** @typedef {import("./api.js").Schemas} Schemas */
/** @typedef {Schemas["PairView"]["latency"]} LatencyCell */
/** @typedef {Schemas["PairView"]["bandwidth"]} BandwidthCell */
/** @typedef {Schemas["PairView"]["ping"]} PingCell */
/** @typedef {LatencyCell | BandwidthCell | PingCell} AnyCell */
/** @typedef {[name: string, there: string | null, back: string | null]} Row */

/** A row for both directions. @template F @param {(F | null | undefined)[]} both @param {string} name @param {(figures: F) => string | null} text @returns {Row} */
const row = (both, name, text) => {
  const [there, back] = both.map((figures) => (figures ? text(figures) : null));
  return [name, there, back];
};

/** @param {number | null | undefined} ns */
const orTooFew = (ns) => (ns === null || ns === undefined ? "too few samples" : latencyText(ns));

/** @param {LatencyCell[]} cells @returns {Row[]} */
function latencyRows(cells) {
  const both = cells.map((cell) => cell.figures);
  return [row(both, "Median", (f) => latencyText(f.p50_ns)), row(both, "90 %", (f) => latencyText(f.p90_ns)),
    row(both, "99 %", (f) => orTooFew(f.p99_ns)), row(both, "99.9 %", (f) => orTooFew(f.p999_ns)),
    row(both, "Smallest", (f) => latencyText(f.min_ns)), row(both, "Largest", (f) => latencyText(f.max_ns)),
    row(both, "Samples", (f) => `${f.count}${f.host_delayed ? `, ${f.host_delayed} held up by the host` : ""}`)];
}

/** @param {BandwidthCell[]} cells @returns {Row[]} */
function bandwidthRows(cells) {
  const both = cells.map((cell) => cell.figures);
  return [row(both, "Average", (f) => bandwidthText(f.average_bits_per_second)),
    row(both, "Slowest tenth", (f) => bandwidthText(f.worst_window_bits_per_second)), row(both, "Measured for", (f) => latencyText(f.duration_ns))];
}

/** @param {Schemas["PingSizeFigures"]} size */
const sizeText = (size) => (size.sent === 0 ? null : [`${size.answered} of ${size.sent} answered`,
  size.lost_forward === null || size.lost_forward === undefined ? "direction of loss not known" : `lost ${size.lost_forward} there, ${size.lost_backward} back`,
  ...[["late", size.late], ["twice", size.duplicate]].filter(([, count]) => count).map(([word, count]) => `${count} ${word}`)].join(", "));

/** @param {number | null | undefined} p50 @param {number | null | undefined} max */
const spread = (p50, max) => (p50 === null || p50 === undefined ? "–" : `${latencyText(p50)}, at most ${latencyText(max)}`);

/** @param {PingCell[]} cells @returns {Row[]} */
function pingRows(cells) {
  const both = cells.map((cell) => cell.figures);
  return [row(both, "In the network, median", (f) => spread(f.network_p50_ns, f.network_max_ns)),
    row(both, "Large pings, median", (f) => latencyText(f.large_p50_ns)), row(both, "Lost", (f) => shareText(f.loss_ratio)),
    row(both, "Small pings", (f) => sizeText(f.small)), row(both, "Large pings", (f) => sizeText(f.large)),
    row(both, "Inside the responder", (f) => spread(f.responder_p50_ns, f.responder_max_ns)),
    row(both, "Inside the prober", (f) => spread(f.prober_p50_ns, f.prober_max_ns)),
    row(both, "Held up by a host", (f) => (f.host_delayed ? String(f.host_delayed) : null)),
    row(both, "To an old queue pair", (f) => (f.stale ? String(f.stale) : null)),
    row(both, "Worst path label", (f) => (f.worst_label ? `${f.worst_label.flow_label}: ${f.worst_label.answered} of ${f.worst_label.sent} answered, `
      + latencyText(f.worst_label.p50_ns) : null)),
    row(both, "Clock", (f) => (f.clock === "hw" ? "the adapter's" : "the host's"))];
}

/** @param {AnyCell} cell */
const stateText = (cell) => `${cell.state}${cell.excluded ? ` (${cell.excluded})` : ""}`;

/** @param {string} title @param {AnyCell[]} cells @param {Row[]} rows */
function section(title, cells, rows) {
  const [there, back] = cells;
  /** @type {Row[]} */
  const all = [["State", stateText(there), stateText(back)],
    ["Measured", there.measured_at ? agoText(there.age_seconds) : null, back.measured_at ? agoText(back.age_seconds) : null], ...rows,
    ["Of the median of all pairs", ratio(there), ratio(back)],
    ["Sent again or out of order", count(there), count(back)],
    ["Method", there.method ?? null, back.method ?? null]];
  const known = all.filter(([, a, b]) => a !== null || b !== null);
  return make("table", { class: "pairs" }, make("caption", {}, title),
    make("thead", {}, make("tr", {}, make("td", {}), make("th", { scope: "col" }, "there →"), make("th", { scope: "col" }, "← back"))),
    make("tbody", {}, ...known.map(([name, a, b]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, a ?? "–"), make("td", {}, b ?? "–")))));
}

/** @param {AnyCell} cell */
const ratio = (cell) => (cell.ratio_to_median === null || cell.ratio_to_median === undefined ? null : `${cell.ratio_to_median.toFixed(2)} ×`);

/** @param {AnyCell} cell */
const count = (cell) => (cell.retransmits === null || cell.retransmits === undefined ? null : String(cell.retransmits));

/** Why the last probe failed, and what to do. @param {string} what @param {Schemas["FailureView"]} failure */
export function failureView(what, failure) {
  return make("div", { class: "trouble" }, make("p", { class: "bad" }, make("span", { "aria-hidden": "true" }, "✕ "), `${what}: ${failure.text}`),
    make("p", { class: "next" }, failure.next_step),
    make("p", { class: "quiet" }, `${failure.cause}; step ${failure.step}, seen by the ${failure.side}${failure.evidence ? `: ${failure.evidence}` : ""}`));
}

/** @param {Schemas["PairVerdict"]} verdict */
const verdictView = (verdict) => make("div", { class: "trouble" }, make("p", { class: "bad" }, verdict.text),
  make("p", { class: "next" }, verdict.next_step), make("p", { class: "quiet" }, `${verdict.id}: ${verdict.evidence}`));

/**
 * Everything that is known of a pair. @param {Schemas["PairView"]} there @param {Schemas["PairView"]} back
 */
export function figures(there, back) {
  const failures = /** @type {const} */ (["ping", "latency", "bandwidth"]).flatMap((metric) => [there, back].map((pair) => {
    const { failure } = pair[metric], way = pair === there ? "there" : "back";
    return failure && failureView(`The last probe failed (${metric}, ${way})`, failure);
  }));
  const verdicts = [...there.verdicts, ...back.verdicts].map(verdictView);
  return make("div", {}, ...failures.filter((failure) => failure !== null && failure !== undefined), ...verdicts,
    section("Pings", [there.ping, back.ping], pingRows([there.ping, back.ping])),
    section("Latency over connections", [there.latency, back.latency], latencyRows([there.latency, back.latency])),
    section("Bandwidth", [there.bandwidth, back.bandwidth], bandwidthRows([there.bandwidth, back.bandwidth])));
}
