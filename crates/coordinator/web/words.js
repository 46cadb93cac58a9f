// How figures, ages and states read.

/** Three digits that mean something, without an exponent. @param {number} value */
const three = (value) => (value >= 999.5 ? String(Math.round(value)) : value.toPrecision(3));

/** Nanoseconds. @param {number | null | undefined} ns */
export function latencyText(ns) {
  if (ns === null || ns === undefined || Number.isNaN(ns)) return "–";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${three(ns / 1e3)} µs`;
  return ns < 1e9 ? `${three(ns / 1e6)} ms` : `${three(ns / 1e9)} s`;
}

/** Bits per second. @param {number | null | undefined} bits */
export function bandwidthText(bits) {
  if (bits === null || bits === undefined || Number.isNaN(bits)) return "–";
  if (bits < 1e6) return `${three(bits / 1e3)} kb/s`;
  return bits < 1e9 ? `${three(bits / 1e6)} Mb/s` : `${three(bits / 1e9)} Gb/s`;
}

/** A share from 0 to 1. @param {number | null | undefined} share */
export function shareText(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  if (share === 0 || share === 1) return `${share * 100} %`;
  return `${(share * 100).toPrecision(share < 0.1 ? 2 : 3)} %`;
}

/** Bytes. @param {number} bytes */
export function bytesText(bytes) {
  const steps = [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]];
  for (const [unit, size] of /** @type {[string, number][]} */ (steps)) if (bytes >= size) return `${three(bytes / size)} ${unit}`;
  return `${bytes} B`;
}

/** A span of time, seconds. @param {number} seconds */
export function spanText(seconds) {
  if (seconds < 1) return "less than a second";
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

/** How long ago. @param {number | null | undefined} seconds */
export const agoText = (seconds) => (seconds === null || seconds === undefined ? "never" : `${spanText(seconds)} ago`);

/** A time as `2026-11-30 14:05:07 UTC`, and how long ago that was. @param {string | null | undefined} at RFC 3339 */
export function sinceText(at) {
  if (!at) return "";
  const ago = (Date.now() - Date.parse(at)) / 1000;
  // A clock that is behind must not make the future of it.
  return `${timeText(at)} (${ago < 1 ? "just now" : agoText(ago)})`;
}

/** @param {string} at RFC 3339 */
export const timeText = (at) => `${at.slice(0, 19).replace("T", " ")} UTC`;

/** What the letters of the matrix mean. @type {Record<string, string>} */
export const STATES = { f: "fresh", s: "stale", n: "never measured", x: "failed", e: "not probed", "-": "the same endpoint" };

/** @param {string} endpoint `NODE/DEVICE/PORT` */
export const nodeOf = (endpoint) => endpoint.split("/")[0] ?? endpoint;

/** Count and word, in the plural where it has to be. @param {number} count @param {string} word */
export const many = (count, word) => `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
