// The one dialog of the page: asks for a note, a duration or the token, and tells what went wrong.

import { byId, make } from "./dom.js";

/** @typedef {{ name: string, label: string, type?: string, value?: string, choices?: [string, string][] }} Field */
/** @typedef {{ title: string, text?: string, fields: Field[], confirm: string }} Question */

/**
 * Asks; the answers by name, or `null` when the person changed their mind.
 * @param {Question} question
 * @returns {Promise<Record<string, string> | null>}
 */
export function ask(question) {
  const dialog = byId("dialog", HTMLDialogElement);
  const inputs = question.fields.map((field) => [field.name, input(field)]);
  const typed = /** @type {[string, HTMLInputElement | HTMLSelectElement][]} */ (inputs);
  const labels = question.fields.map((field, at) => make("label", {}, field.label, " ", typed[at]?.[1]));
  return new Promise((answer) => {
    const done = (/** @type {boolean} */ yes) => {
      dialog.close();
      answer(yes ? Object.fromEntries(typed.map(([name, made]) => [name, made.value])) : null);
    };
    const submit = (/** @type {Event} */ event) => { event.preventDefault(); done(true); };
    dialog.oncancel = (event) => { event.preventDefault(); done(false); };
    dialog.replaceChildren(make("form", { submit },
      make("h2", { id: "dialog-title" }, question.title), question.text && make("p", {}, question.text), ...labels,
      make("p", { class: "buttons" }, make("button", { type: "submit", class: "main" }, question.confirm),
        make("button", { type: "button", click: () => done(false) }, "Cancel"))));
    dialog.showModal();
    typed[0]?.[1].focus();
  });
}

/** @param {Field} field */
function input(field) {
  if (!field.choices) return make("input", { name: field.name, type: field.type ?? "text", value: field.value, autocomplete: "off" });
  return make("select", { name: field.name },
    ...field.choices.map(([value, words]) => make("option", { value, selected: value === field.value }, words)));
}

/** @type {number | undefined} */
let leaves;

/** Says in a corner what was done, or why not, for as long as it takes to read. @param {string} text @param {boolean} [bad] */
export function say(text, bad = false) {
  const note = byId("said", HTMLElement);
  note.textContent = text;
  note.className = bad ? "bad" : "";
  note.hidden = false;
  clearTimeout(leaves);
  leaves = setTimeout(() => { note.hidden = true; }, bad ? 15_000 : 6_000);
}
