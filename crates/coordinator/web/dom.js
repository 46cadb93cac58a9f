// Elements made by code: what machines say goes in as text, never as markup.

/** @typedef {Node | string | null | undefined | false} Child */
/** @typedef {string | number | boolean | undefined | ((event: Event) => void)} Attribute */

/**
 * An element with attributes and children. A function is a listener (`click`), `true` an empty attribute, `false` none.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, Attribute>} attributes
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...present(children));
  return made;
}

/** @param {Child[]} children @returns {(Node | string)[]} */
function present(children) {
  return /** @type {(Node | string)[]} */ (children.filter((child) => child !== null && child !== undefined && child !== false));
}

/**
 * The element of the page with this id and of this kind; the page itself is wrong without it.
 * @template {Element} T
 * @param {string} id
 * @param {{ new (): T }} kind
 * @returns {T}
 */
export function byId(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`the page has no ${kind.name} #${id}`);
  return found;
}

/** @type {WeakMap<Element, string>} */
const shown = new WeakMap();

/**
 * Fills a place again when what it shows has changed, or its ages have; not while a person selects text in it. Focus, open parts and the
 * place of scrolling stay, by `data-key`.
 * @param {Element} place
 * @param {unknown} data
 * @param {() => Child[]} build
 */
export function fill(place, data, build) {
  const text = `${Math.floor(Date.now() / 60_000)} ${JSON.stringify(data)}`, selection = getSelection();
  const selecting = selection && !selection.isCollapsed && place.contains(selection.anchorNode);
  if (shown.get(place) === text || (selecting && shown.has(place))) return;
  shown.set(place, text);
  const focused = place.contains(document.activeElement) ? keyOf(document.activeElement) : undefined;
  const open = new Map([...place.querySelectorAll("details")].map((part) => [keyOf(part), part.open]));
  const scrolled = place.scrollTop;
  place.replaceChildren(...present(build()));
  for (const part of place.querySelectorAll("details")) part.open = open.get(keyOf(part)) ?? part.open;
  const again = focused && place.querySelector(`[data-key="${CSS.escape(focused)}"]`);
  if (again instanceof HTMLElement) again.focus({ preventScroll: true });
  place.scrollTop = scrolled;
}

/** @param {Element | null} part */
const keyOf = (part) => (part instanceof HTMLElement ? part.dataset.key : undefined);

/**
 * A table with a head. Cells are texts or elements.
 * @param {string[]} head
 * @param {Child[][]} rows
 * @param {string} [caption]
 */
export function table(head, rows, caption) {
  const line = (/** @type {Child[]} */ cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell)));
  return make("table", {}, caption && make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...head.map((word) => make("th", { scope: "col" }, word)))),
    make("tbody", {}, ...rows.map(line)));
}

/**
 * Names and what stands for them; what is not known is left out.
 * @param {[string, Child][]} rows
 */
export function pairs(rows) {
  const known = rows.filter(([, value]) => value !== null && value !== undefined && value !== "" && value !== false);
  return make("table", { class: "pairs" },
    make("tbody", {}, ...known.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value)))));
}

const SHAPES = { fail: "✕", unknown: "?", warn: "!", ok: "✓" };

/** How bad, by colour, shape and word. @param {string} status */
export function badge(status) {
  const shape = SHAPES[/** @type {keyof typeof SHAPES} */ (status)] ?? "·";
  return make("span", { class: `badge ${status}` }, make("span", { "aria-hidden": "true" }, shape), ` ${status}`);
}

/** A button with a click. @param {string} words @param {() => void} click @param {string} [key] */
export const button = (words, click, key) => make("button", { type: "button", click, "data-key": key }, words);
