// What cells look like: colours that stay apart for every kind of colour vision, and a shape for each state besides.

import { CODE, SHADES } from "./matrix.js";

// Cividis (Nuñez, Anderson, Renslow 2018): its lightness rises evenly for every kind of colour vision, from blue to yellow.
const RAMP = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116],
  [195, 179, 105], [225, 204, 85], [254, 232, 56]];

/** @typedef {[number, number, number]} Rgb */
/** @typedef {{ ground: string, panel: string, ink: string, quiet: string, line: string, bad: string, accent: string }} Theme */

/** The colours of the style sheet, for what is drawn. @returns {Theme} */
export function theme() {
  const style = getComputedStyle(document.documentElement);
  const read = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
  return { ground: read("ground"), panel: read("panel"), ink: read("ink"), quiet: read("quiet"), line: read("line"), bad: read("bad"),
    accent: read("accent") };
}

/** From good (blue) to bad (yellow). @param {number} share @returns {Rgb} */
function ramp(share) {
  const at = share * (RAMP.length - 1), base = Math.min(RAMP.length - 2, Math.floor(at)), part = at - base;
  const [from, to] = [RAMP[base], RAMP[base + 1]];
  const mixed = [0, 1, 2].map((i) => Math.round(from[i] + (to[i] - from[i]) * part));
  return [mixed[0], mixed[1], mixed[2]];
}

/** @param {string} hex `#rrggbb` @returns {Rgb} */
function parts(hex) {
  const number = Number.parseInt(hex.slice(1), 16);
  return [number >> 16 & 255, number >> 8 & 255, number & 255];
}

/** @param {Rgb} a @param {Rgb} b @param {number} share of b @returns {Rgb} */
const mix = (a, b, share) => [Math.round(a[0] + (b[0] - a[0]) * share), Math.round(a[1] + (b[1] - a[1]) * share),
  Math.round(a[2] + (b[2] - a[2]) * share)];

/**
 * The colour of each code. @param {Theme} colours @returns {Rgb[]}
 */
export function palette(colours) {
  const ground = parts(colours.ground), table = Array.from({ length: 256 }, () => ground);
  table[CODE.self] = mix(ground, parts(colours.line), 0.6);
  table[CODE.excluded] = mix(ground, parts(colours.quiet), 0.35);
  table[CODE.bare] = parts(colours.panel);
  for (let i = 0; i < SHADES.stale; i++) table[CODE.stale + i] = mix(ramp(i / (SHADES.stale - 1)), ground, 0.5);
  for (let i = 0; i < SHADES.fresh; i++) table[CODE.fresh + i] = ramp(i / (SHADES.fresh - 1));
  table[CODE.failed] = parts(colours.bad);
  return table;
}

/** @param {Rgb | undefined} rgb */
export const css = (rgb) => `rgb(${(rgb ?? [0, 0, 0]).join(" ")})`;

/** Dark or light, whichever can be read on this. @param {Rgb | undefined} rgb */
export function inkOn(rgb) {
  const [r, g, b] = rgb ?? [0, 0, 0];
  return 0.299 * r + 0.587 * g + 0.114 * b > 130 ? "#16181d" : "#ffffff";
}

/** The code without its shade: what decides the shape. @param {number} code @returns {"failed" | "stale" | "never" | "excluded" | null} */
export function shapeOf(code) {
  if (code === CODE.failed) return "failed";
  if (code >= CODE.stale && code < CODE.fresh) return "stale";
  if (code === CODE.never) return "never";
  return code === CODE.excluded ? "excluded" : null;
}

/**
 * Adds the shape of one cell to a path: a cross for failed, a dot for stale, an outline for never, a bar for excluded.
 * @param {Path2D} path
 * @param {"failed" | "stale" | "never" | "excluded"} shape
 * @param {number} x
 * @param {number} y
 * @param {number} size
 */
export function addShape(path, shape, x, y, size) {
  const pad = size * 0.25, right = x + size - pad, low = y + size - pad, middle = y + size / 2;
  if (shape === "failed") {
    path.moveTo(x + pad, y + pad); path.lineTo(right, low);
    path.moveTo(right, y + pad); path.lineTo(x + pad, low);
  } else if (shape === "stale") {
    path.moveTo(x + size / 2 + size * 0.14, middle);
    path.arc(x + size / 2, middle, size * 0.14, 0, 2 * Math.PI);
  } else if (shape === "never") {
    path.rect(x + size * 0.15, y + size * 0.15, size * 0.7, size * 0.7);
  } else {
    path.moveTo(x + pad, middle); path.lineTo(right, middle);
  }
}

/** Draws what was added. @param {CanvasRenderingContext2D} pen @param {Path2D} path @param {"failed" | "stale" | "never" | "excluded"} shape @param {number} size @param {Theme} colours */
export function drawShapes(pen, path, shape, size, colours) {
  if (shape === "stale") {
    pen.fillStyle = colours.ink;
    pen.fill(path);
    return;
  }
  pen.strokeStyle = shape === "failed" ? colours.ground : shape === "never" ? colours.line : colours.ink;
  pen.lineWidth = shape === "never" ? 1 : Math.max(1, size / 10);
  pen.stroke(path);
}

/** A small picture of a state for the legend. @param {number} code @param {Theme} colours */
export function sample(code, colours) {
  const canvas = document.createElement("canvas"), side = 18, zoom = devicePixelRatio || 1;
  canvas.width = canvas.height = side * zoom;
  canvas.className = "sample";
  canvas.setAttribute("aria-hidden", "true");
  const pen = canvas.getContext("2d"), shape = shapeOf(code);
  if (!pen) return canvas;
  pen.scale(zoom, zoom);
  pen.fillStyle = css(palette(colours)[code]);
  pen.fillRect(0, 0, side, side);
  if (shape) {
    const path = new Path2D();
    addShape(path, shape, 0, 0, side);
    drawShapes(pen, path, shape, side, colours);
  }
  return canvas;
}

/** The ramp from good to bad, one step a column. @param {HTMLCanvasElement} canvas @param {Theme} colours */
export function drawRamp(canvas, colours) {
  const pen = canvas.getContext("2d"), table = palette(colours);
  canvas.width = SHADES.fresh;
  canvas.height = 1;
  if (!pen) return;
  for (let i = 0; i < SHADES.fresh; i++) {
    pen.fillStyle = css(table[CODE.fresh + i]);
    pen.fillRect(i, 0, 1, 1);
  }
}
