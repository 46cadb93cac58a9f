// The history of a pair as a chart and as a table, where the coordinator keeps one; and how to have it kept.

import { ApiError, read, wordsOf, write } from "./api.js";
import { say } from "./dialogs.js";
import { button, make, table } from "./dom.js";
import { bandwidthText, latencyText, shareText, timeText } from "./words.js";

/** @typedef {{ at: string, state: string, p50?: number, p99?: number, average?: number, sent?: number, lost?: number }} Point */
/** @typedef {{ source: string, target: string, metric: string, unit: string, kept_because?: string, points: Point[] }} History */

const WIDE = 380, HIGH = 90, PAD = 4;

/** @param {string} source @param {string} target */
const query = (source, target) => `source=${encodeURIComponent(source)}&target=${encodeURIComponent(target)}`;

/** What is kept of a pair; or, as a text, why nothing is. @param {string} source @param {string} target @param {string} metric @returns {Promise<History | string>} */
export async function readHistory(source, target, metric) {
  try {
    return await read(`api/v1/history?${query(source, target)}&metric=${metric}`);
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return "No history is kept for this pair.";
    throw error;
  }
}

/** @param {Point} point */
const valueOf = (point) => point.p50 ?? point.average;

/** @param {History | string} history @param {[string, string]} pair */
export function historyView(history, [source, target]) {
  if (typeof history === "string") {
    return make("div", {}, make("h3", {}, "History"), make("p", { class: "quiet" }, history), button("Keep it from now on", () => pin(source, target), "pin"));
  }
  const text = history.metric === "bandwidth" ? bandwidthText : latencyText;
  const rows = history.points.slice().reverse().map((point) => [timeText(point.at), point.state, valueOf(point) === undefined ? "–" : text(valueOf(point)),
    point.p99 === undefined ? "–" : text(point.p99), point.sent ? shareText((point.lost ?? 0) / point.sent) : "–"]);
  return make("div", {}, make("h3", {}, `History (${history.metric})`), chart(history, text),
    make("details", { "data-key": "history" }, make("summary", {}, "As a table"),
      make("div", { class: "scroll" }, table(["Time", "State", history.metric === "bandwidth" ? "Average" : "Median", "99 %", "Lost"], rows))));
}

/** @param {string} source @param {string} target */
async function pin(source, target) {
  try {
    await write("PUT", `api/v1/history/pins?${query(source, target)}`);
    say("From now on the history of this pair is kept.");
  } catch (error) {
    say(`It is not kept: ${wordsOf(error)}`, true);
  }
}

/** @param {string} tag @param {Record<string, string | number>} attributes @param {...(Node | string)} children */
function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/** A line for the median, one for the 99th percentile; crosses where a probe failed. @param {History} history @param {(value: number) => string} text */
function chart({ points, metric }, text) {
  const values = points.flatMap((point) => [valueOf(point), point.p99]).filter((value) => value !== undefined);
  if (points.length === 0) return make("p", { class: "quiet" }, "Nothing was measured since it is kept.");
  const times = points.map((point) => Date.parse(point.at)), from = Math.min(...times), span = Math.max(1, Math.max(...times) - from);
  const top = Math.max(...values, 1) * 1.05;
  const x = (/** @type {number} */ at) => PAD + (times[at] - from) / span * (WIDE - 2 * PAD);
  const y = (/** @type {number} */ value) => HIGH - PAD - value / top * (HIGH - 2 * PAD);
  const line = (/** @type {(point: Point) => number | undefined} */ of, /** @type {string} */ name) => {
    let path = "", on = false;
    points.forEach((point, at) => {
      const value = of(point);
      // A gap is a gap: no line over a time in which nothing was measured.
      if (value !== undefined) path += `${on ? "L" : "M"}${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      on = value !== undefined;
    });
    return svg("path", { d: path, class: name });
  };
  const failed = points.map((point, at) => (point.state === "failed" ? `M${x(at) - 3} 3l6 6m0 -6l-6 6` : "")).join("");
  const words = `${metric} from ${timeText(points[0].at)} to ${timeText(points[points.length - 1].at)}, at most ${values.length ? text(top / 1.05) : "nothing measured"}`;
  const picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", class: "chart" }, svg("title", {}, words),
    line((point) => point.p99, "p99"), line(valueOf, "p50"), svg("path", { d: failed, class: "failed" }));
  return make("figure", {}, picture, make("figcaption", { class: "quiet" },
    `${timeText(points[0].at)} until now, from 0 to ${values.length ? text(top / 1.05) : "–"}; thick: median, thin: 99 %, ✕ failed.`));
}
