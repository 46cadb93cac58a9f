// Draws the map on a canvas, and turns pointer, wheel and keys into zoom, pan and a chosen cell. Knows codes and labels, no figures.

import { addShape, drawShapes, inkOn, palette, shapeOf } from "./colours.js";
import { halved } from "./matrix.js";

/** @typedef {import("./colours.js").Theme} Theme */
/** @typedef {import("./colours.js").Rgb} Rgb */
/** @typedef {[number, number]} At row and column */
/** @typedef {{ codes: Uint8Array, count: number, image: HTMLCanvasElement | null }} Level */
/** @typedef {{ codes: Uint8Array, labels: string[], groups: import("./matrix.js").Group[], text: (at: At) => string, colours: Theme }} Picture */
/** @typedef {{ moved: (at: At | null, byKey: boolean, point: [number, number]) => void, opened: (at: At) => void, zoomed: (pool: number) => void }} Tell */

const FONT = "12px system-ui, sans-serif";
/** Sizes of a cell, CSS pixels. */
const CELL_MAX = 72, LABELS_FROM = 11, SHAPES_FROM = 7, GRID_FROM = 10, GROUP_LINES_FROM = 2, TEXT_FROM = 54;
/** A pointer that moves less between down and up has clicked. */
const CLICK_WITHIN = 4;
const ZOOM_STEP = 1.4;
const SHAPES = /** @type {const} */ (["failed", "stale", "never", "excluded"]);
/** @type {Record<string, At>} */
const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-10, 0], PageDown: [10, 0] };

export class MapCanvas {
  /** @param {HTMLCanvasElement} canvas @param {Tell} tell */
  constructor(canvas, tell) {
    const pen = canvas.getContext("2d", { alpha: false });
    if (!pen) throw new Error("this browser draws on no canvas");
    Object.assign(canvas, { onpointerdown: this.down.bind(this), onpointermove: this.move.bind(this), onpointerup: this.up.bind(this),
      onpointerleave: () => this.point(null, false, [0, 0]), onkeydown: this.key.bind(this) });
    canvas.addEventListener("wheel", this.wheel.bind(this), { passive: false });
    this.canvas = canvas;
    this.pen = pen;
    this.tell = tell;
    this.count = 0;
    /** @type {Level[]} */
    this.levels = [];
    /** @type {Picture | null} */
    this.picture = null;
    /** @type {Rgb[]} */
    this.table = [];
    // What is seen: CSS pixels of a cell, and the cell in the upper left corner; the margins hold the labels.
    this.scale = 1; this.x = 0; this.y = 0; this.left = 0; this.top = 0; this.width = 0; this.height = 0; this.frame = 0; this.pool = 0;
    this.fitted = true;
    /** @type {At | null} */
    this.cursor = null;
    /** @type {At | null} */
    this.chosen = null;
    /** @type {{ from: [number, number], x: number, y: number, moved: boolean } | null} */
    this.drag = null;
    new ResizeObserver(() => this.resize()).observe(canvas);
  }

  /** Shows other cells; where as many are shown as before, zoom and place stay. @param {Picture} picture */
  show(picture) {
    const count = picture.labels.length;
    this.picture = picture;
    this.table = palette(picture.colours);
    this.levels = [{ codes: picture.codes, count, image: null }];
    if (count !== this.count) {
      this.count = count;
      this.fitted = true;
      this.cursor = null;
    }
    this.resize();
  }

  /** @param {At | null} at */
  choose(at) {
    this.chosen = at;
    this.later();
  }

  resize() {
    const zoom = devicePixelRatio || 1, box = this.canvas.getBoundingClientRect();
    this.width = box.width;
    this.height = box.height;
    const [wide, high] = [Math.round(box.width * zoom), Math.round(box.height * zoom)];
    if (this.canvas.width !== wide || this.canvas.height !== high) Object.assign(this.canvas, { width: wide, height: high });
    this.pen.font = FONT;
    const labels = [...(this.picture?.labels ?? []), ...(this.picture?.groups ?? []).map((group) => group.label)];
    const longest = labels.reduce((long, label) => (label.length > long.length ? label : long), "");
    const room = Math.ceil(this.pen.measureText(longest).width) + 12;
    this.left = Math.min(room, this.width * 0.3);
    this.top = Math.min(room, this.height * 0.25);
    if (this.fitted) this.fit();
    this.place();
  }

  /** All cells at once. */
  fit() {
    this.fitted = true;
    this.scale = this.least();
    this.x = this.y = 0;
    this.place();
  }

  least() {
    const room = Math.min(this.width - this.left, this.height - this.top);
    return Math.min(CELL_MAX, Math.max(0.05, room / Math.max(1, this.count)));
  }

  /** Zooms around a point of the canvas, by default its middle. @param {number} factor @param {[number, number]} [around] */
  zoom(factor, around = [(this.width + this.left) / 2, (this.height + this.top) / 2]) {
    const scale = Math.min(CELL_MAX, Math.max(this.least(), this.scale * factor));
    this.x += (around[0] - this.left) * (1 / this.scale - 1 / scale);
    this.y += (around[1] - this.top) * (1 / this.scale - 1 / scale);
    this.scale = scale;
    this.fitted = scale <= this.least() * 1.001;
    this.place();
  }

  /** Keeps the cells in sight, and draws. */
  place() {
    const spare = (/** @type {number} */ room) => Math.max(0, this.count - room / this.scale);
    this.x = Math.min(spare(this.width - this.left), Math.max(0, this.x));
    this.y = Math.min(spare(this.height - this.top), Math.max(0, this.y));
    this.later();
  }

  later() {
    this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  /** The cells at half the size of the level before, as a picture of one point each. @param {number} number */
  level(number) {
    while (this.levels.length <= number) {
      const finer = this.levels[this.levels.length - 1];
      this.levels.push({ ...halved(finer.codes, finer.count), image: null });
    }
    const level = this.levels[number];
    return { count: level.count, image: level.image ??= this.paint(level) };
  }

  /** @param {Level} level */
  paint({ codes, count }) {
    const image = document.createElement("canvas"), pen = image.getContext("2d");
    image.width = image.height = count;
    if (!pen) return image;
    const points = pen.createImageData(count, count), words = new Uint32Array(points.data.buffer);
    const table = Uint32Array.from(this.table, ([r, g, b]) => 0xff000000 | b << 16 | g << 8 | r);
    for (let at = 0; at < codes.length; at++) words[at] = table[codes[at]];
    pen.putImageData(points, 0, 0);
    return image;
  }

  draw() {
    const { pen, picture, width, height, left, top } = this, zoom = devicePixelRatio || 1;
    pen.setTransform(zoom, 0, 0, zoom, 0, 0);
    pen.fillStyle = picture?.colours.ground ?? "#808080";
    pen.fillRect(0, 0, width, height);
    if (!picture || this.count === 0) return;
    const span = (/** @type {number} */ from, /** @type {number} */ room) => ({ from: Math.floor(from), to: Math.min(this.count, Math.ceil(from + room / this.scale)) });
    const rows = span(this.y, height - top), columns = span(this.x, width - left);
    pen.save();
    pen.beginPath();
    pen.rect(left, top, width - left, height - top);
    pen.clip();
    this.drawCells(zoom);
    if (this.scale >= SHAPES_FROM) this.drawShapes(picture, rows, columns);
    if (this.scale >= GRID_FROM) this.drawGrid(picture.colours, rows, columns);
    if (this.scale >= GROUP_LINES_FROM) this.drawGroupLines(picture);
    if (this.scale >= TEXT_FROM) this.drawTexts(picture, rows, columns);
    this.drawFrame(this.chosen, 3, picture.colours);
    this.drawFrame(this.cursor, 2, picture.colours);
    pen.restore();
    this.drawLabels(picture);
  }

  /** The cells as an enlarged picture; where a cell has less than a point, the worst of several is shown. @param {number} zoom */
  drawCells(zoom) {
    const number = Math.max(0, Math.ceil(Math.log2(1 / (this.scale * zoom)))), factor = 2 ** number;
    const { image } = this.level(number), { scale } = this;
    if (factor !== this.pool) this.tell.zoomed(this.pool = factor);
    this.pen.imageSmoothingEnabled = false;
    const wide = Math.min(this.count - this.x, (this.width - this.left) / scale);
    const high = Math.min(this.count - this.y, (this.height - this.top) / scale);
    this.pen.drawImage(image, this.x / factor, this.y / factor, wide / factor, high / factor, this.left, this.top, wide * scale, high * scale);
  }

  /** @typedef {{ from: number, to: number }} Span */

  /** @param {number} column */
  atX(column) { return this.left + (column - this.x) * this.scale; }

  /** @param {number} row */
  atY(row) { return this.top + (row - this.y) * this.scale; }

  /** @param {Picture} picture @param {Span} rows @param {Span} columns */
  drawShapes(picture, rows, columns) {
    const paths = { failed: new Path2D(), stale: new Path2D(), never: new Path2D(), excluded: new Path2D() };
    for (let row = rows.from; row < rows.to; row++) {
      for (let column = columns.from; column < columns.to; column++) {
        const shape = shapeOf(picture.codes[row * this.count + column]);
        if (shape) addShape(paths[shape], shape, this.atX(column), this.atY(row), this.scale);
      }
    }
    for (const shape of SHAPES) drawShapes(this.pen, paths[shape], shape, this.scale, picture.colours);
  }

  /** @param {Theme} colours @param {Span} rows @param {Span} columns */
  drawGrid(colours, rows, columns) {
    this.pen.fillStyle = colours.ground;
    for (let row = rows.from; row <= rows.to; row++) this.pen.fillRect(this.left, this.atY(row) - 0.5, this.width, 1);
    for (let column = columns.from; column <= columns.to; column++) this.pen.fillRect(this.atX(column) - 0.5, this.top, 1, this.height);
  }

  /** @param {Picture} picture */
  drawGroupLines({ groups, colours }) {
    this.pen.fillStyle = colours.ground;
    const thick = this.scale >= GRID_FROM ? 3 : 1, end = this.count * this.scale;
    for (const { from } of groups.slice(1)) {
      this.pen.fillRect(this.left, this.atY(from) - thick / 2, end, thick);
      this.pen.fillRect(this.atX(from) - thick / 2, this.top, thick, end);
    }
  }

  /** @param {Picture} picture @param {Span} rows @param {Span} columns */
  drawTexts(picture, rows, columns) {
    const { pen } = this;
    Object.assign(pen, { font: FONT, textAlign: "center", textBaseline: "middle" });
    for (let row = rows.from; row < rows.to; row++) {
      for (let column = columns.from; column < columns.to; column++) {
        const code = picture.codes[row * this.count + column];
        if (shapeOf(code)) continue;
        pen.fillStyle = inkOn(this.table[code]);
        pen.fillText(picture.text([row, column]), this.atX(column + 0.5), this.atY(row + 0.5), this.scale - 4);
      }
    }
  }

  /** @param {At | null} at @param {number} thick @param {Theme} colours */
  drawFrame(at, thick, colours) {
    if (!at) return;
    const side = Math.max(9, this.scale), x = this.atX(at[1] + 0.5) - side / 2, y = this.atY(at[0] + 0.5) - side / 2;
    // Both colours, so that it is seen on every cell.
    for (const [colour, line] of /** @type {[string, number][]} */ ([[colours.ground, thick + 2], [colours.ink, thick]])) {
      this.pen.strokeStyle = colour;
      this.pen.lineWidth = line;
      this.pen.strokeRect(x, y, side, side);
    }
  }

  /** Names where there is room for each, else what neighbours have in common. @param {Picture} picture */
  drawLabels({ labels, groups, colours }) {
    const { pen, scale } = this, names = scale >= LABELS_FROM;
    const all = names ? labels.map((label, at) => ({ label, from: at, to: at + 1 })) : groups;
    Object.assign(pen, { font: FONT, textBaseline: "middle", fillStyle: colours.quiet });
    const draw = (/** @type {boolean} */ isRow) => {
      const [start, end] = isRow ? [this.top, this.height] : [this.left, this.width];
      let free = start;
      for (const { label, from, to } of all) {
        const [a, b] = isRow ? [this.atY(from), this.atY(to)] : [this.atX(from), this.atX(to)];
        const middle = (Math.max(a, start) + Math.min(b, end)) / 2;
        if (b < start || a > end || middle - 6 < free) continue;
        free = middle + 6;
        pen.save();
        if (isRow) pen.translate(this.left - 6, middle);
        else { pen.translate(middle, this.top - 6); pen.rotate(-Math.PI / 2); }
        pen.textAlign = isRow ? "right" : "left";
        pen.fillText(label, 0, 0, (isRow ? this.left : this.top) - 8);
        pen.restore();
      }
    };
    draw(true);
    draw(false);
  }

  /** @param {MouseEvent} event @returns {[number, number]} */
  pointOf(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /** @param {[number, number]} point @returns {At | null} */
  cellAt([x, y]) {
    const row = Math.floor(this.y + (y - this.top) / this.scale), column = Math.floor(this.x + (x - this.left) / this.scale);
    return x >= this.left && y >= this.top && row < this.count && column < this.count ? [row, column] : null;
  }

  /** @param {At | null} at @param {boolean} byKey @param {[number, number]} point */
  point(at, byKey, point) {
    this.cursor = at;
    this.tell.moved(at, byKey, point);
    this.later();
  }

  /** @param {PointerEvent} event */
  down(event) {
    if (event.button !== 0) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { from: this.pointOf(event), x: this.x, y: this.y, moved: false };
  }

  /** @param {PointerEvent} event */
  move(event) {
    const point = this.pointOf(event), drag = this.drag;
    if (!drag) return this.point(this.cellAt(point), false, point);
    const [right, down] = [point[0] - drag.from[0], point[1] - drag.from[1]];
    drag.moved ||= Math.hypot(right, down) > CLICK_WITHIN;
    if (!drag.moved) return;
    this.x = drag.x - right / this.scale;
    this.y = drag.y - down / this.scale;
    this.place();
  }

  /** @param {PointerEvent} event */
  up(event) {
    const drag = this.drag, at = this.cellAt(this.pointOf(event));
    this.drag = null;
    if (drag && !drag.moved && at) this.tell.opened(at);
  }

  /** Ctrl (and a pinch) zooms; so does the wheel alone once the map was clicked. Else the page scrolls. @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== this.canvas) return;
    event.preventDefault();
    this.zoom(Math.exp(-event.deltaY / (event.ctrlKey ? 120 : 400)), this.pointOf(event));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.count === 0) return;
    const last = this.count - 1, at = this.cursor ?? this.chosen ?? [0, 0], step = STEPS[event.key];
    const inside = (/** @type {number} */ number) => Math.min(last, Math.max(0, number));
    if (step) this.go(this.cursor || this.chosen ? [inside(at[0] + step[0]), inside(at[1] + step[1])] : at);
    else if (event.key === "Home") this.go([at[0], 0]);
    else if (event.key === "End") this.go([at[0], last]);
    else if (event.key === "Enter" || event.key === " ") this.tell.opened(at);
    else if (event.key === "+" || event.key === "=") this.zoomAt(at, ZOOM_STEP);
    else if (event.key === "-") this.zoomAt(at, 1 / ZOOM_STEP);
    else if (event.key === "0") this.fit();
    else return;
    event.preventDefault();
  }

  /** @param {At} at @returns {[number, number]} */
  middleOf(at) {
    return [this.atX(at[1] + 0.5), this.atY(at[0] + 0.5)];
  }

  /** @param {At} at @param {number} factor */
  zoomAt(at, factor) {
    this.zoom(factor, this.middleOf(at));
    this.reveal(at);
  }

  /** The cursor by keys; what is seen follows it. @param {At} at */
  go(at) {
    this.reveal(at);
    this.point(at, true, this.middleOf(at));
  }

  /** Moves just as far as it takes to see this cell whole. @param {At} at */
  reveal(at) {
    const wide = (this.width - this.left) / this.scale, high = (this.height - this.top) / this.scale;
    this.x = Math.min(at[1], Math.max(at[1] + 1 - wide, this.x));
    this.y = Math.min(at[0], Math.max(at[0] + 1 - high, this.y));
    this.place();
  }
}

/** Zooms by one step of the buttons. @param {MapCanvas} map @param {number} steps */
export const zoomBy = (map, steps) => map.zoom(ZOOM_STEP ** steps);
