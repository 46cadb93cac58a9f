// Nodes: which there are, and of one its checks, readings and events; acknowledgement and maintenance.

import { read, wordsOf, write } from "./api.js";
import { ask, say } from "./dialogs.js";
import { badge, button, byId, fill, make, pairs, table } from "./dom.js";
import { acknowledge, askAndAcknowledge, eventTable } from "./incidents.js";
import { go, link, route } from "./route.js";
import { many, sinceText, timeText } from "./words.js";

/** @typedef {import("./api.js").Schemas} Schemas */

const FINDINGS_MAX = 100;
const WORST_FIRST = ["fail", "unknown", "warn", "ok"];

const filter = { words: "", troubled: false };
/** @type {Schemas["NodeView"][]} */
let all = [];

/** Reads and shows the whole view. */
export async function showNodes() {
  const { node } = route();
  const [list, findings, maintenance, detail] = await Promise.all([
    /** @type {Promise<Schemas["NodeList"]>} */ (read("api/v1/nodes")),
    /** @type {Promise<Schemas["FindingList"]>} */ (read(`api/v1/findings?limit=${FINDINGS_MAX}`)),
    /** @type {Promise<Schemas["MaintenanceList"]>} */ (read("api/v1/maintenance")),
    node ? readNode(node) : null,
  ]);
  all = list.nodes;
  showList();
  fill(byId("findings", HTMLElement), findings, () => [findingTable(findings.findings, true),
    (findings.left_out ?? 0) > 0 && make("p", { class: "quiet" }, `and ${findings.left_out} more: rdmascope findings`)]);
  showMaintenance(maintenance);
  fill(byId("node", HTMLElement), detail, () => (detail ? nodeView(detail) : [make("p", { class: "quiet" }, "Choose a node to see its checks, readings and events.")]));
}

/** @param {string} node @returns {Promise<Schemas["NodeDetail"] | string>} */
async function readNode(node) {
  try {
    return await read(`api/v1/nodes/${encodeURIComponent(node)}`);
  } catch (error) {
    return wordsOf(error);
  }
}

const changed = () => void showNodes();

// ---- the list ---------------------------------------------------------------------------------------------------------

/** @param {Schemas["NodeView"]} node */
const statusOf = (node) => (node.connected ? node.worst_finding ?? "" : "unknown");

function showList() {
  const troubled = (/** @type {Schemas["NodeView"]} */ node) => !node.connected || !["", "ok"].includes(statusOf(node)) || node.paused !== "none";
  const wanted = all.filter((node) => node.name.includes(filter.words) && (!filter.troubled || troubled(node)));
  const rank = (/** @type {Schemas["NodeView"]} */ node) => WORST_FIRST.indexOf(statusOf(node) || "ok");
  const sorted = wanted.slice().sort((a, b) => rank(a) - rank(b));
  fill(byId("nodes", HTMLElement), [sorted, route().node], () => [
    make("p", { class: "quiet" }, `${sorted.length} of ${many(all.length, "node")}, the worst first`),
    table(["Node", "Checks", "Agent", "Endpoints", "Paused"], sorted.map((node) => [
      make("a", { href: link({ view: "nodes", node: node.name }), "data-key": node.name, "aria-current": node.name === route().node && "true" }, node.name),
      statusOf(node) ? badge(statusOf(node)) : "none told",
      node.connected ? "connected" : `lost; seen ${sinceText(node.last_seen)}`, String(node.endpoints.length), node.paused === "none" ? "" : node.paused])),
  ]);
}

/** @param {() => void} change */
function filterForm(change) {
  const words = make("input", { type: "search", name: "words", autocomplete: "off", input: () => { filter.words = words.value.trim(); change(); } });
  const troubled = make("input", { type: "checkbox", change: () => { filter.troubled = troubled.checked; change(); } });
  const form = byId("node-filter", HTMLFormElement);
  form.append(make("label", {}, "Name contains ", words), make("label", {}, troubled, " only those with something wrong"));
  form.addEventListener("submit", (event) => event.preventDefault());
}
filterForm(showList);

// ---- one node ---------------------------------------------------------------------------------------------------------

/** @param {Schemas["NodeDetail"] | string} detail */
function nodeView(detail) {
  if (typeof detail === "string") return [make("p", { class: "bad" }, detail), make("a", { href: link({ view: "nodes", node: "" }) }, "All nodes")];
  const { node, findings, facts, events, maintenance } = detail;
  const subjects = [...new Set(facts.map((fact) => fact.subject))];
  return [
    make("h2", {}, node.name, " ", statusOf(node) && badge(statusOf(node))),
    pairs([["Agent", node.connected ? `connected, version ${node.agent_version}` : `not connected; last seen ${sinceText(node.last_seen)}. What follows is from then.`],
      ["Endpoints", node.endpoints.join(", ")], ["Paused", node.paused === "none" ? "" : node.paused],
      ["Maintenance", maintenance && `${maintenance.nodes} since ${sinceText(maintenance.since)}${maintenance.until ? ` until ${timeText(maintenance.until)}` : ""} ${maintenance.note}`]]),
    make("p", { class: "buttons" }, button("Maintenance …", () => void maintain(node.name), "maintain"),
      node.paused === "none" ? button("Pause its probes", () => void pauseNode(node.name, "pause"), "pause") : button("Resume its probes", () => void pauseNode(node.name, "resume"), "pause"),
      button("Close", () => go({ node: "" }), "close")),
    make("h3", {}, "Checks that are not fine"),
    findingTable(findings, false),
    (detail.findings_left_out ?? 0) > 0 && make("p", { class: "quiet" }, `and ${detail.findings_left_out} more on the node: rdmascope check`),
    make("h3", {}, "Readings"),
    subjects.length === 0 && make("p", { class: "quiet" }, "Its agent has told none."),
    ...subjects.map((subject) => make("details", { "data-key": `facts ${subject}`, open: subjects.length < 4 }, make("summary", {}, subject),
      pairs(facts.filter((fact) => fact.subject === subject).map((fact) => [fact.key, fact.value])))),
    make("h3", {}, "Events"),
    eventTable(events),
  ];
}

/** In the words of `rdmascope findings`. @param {Schemas["NodeFinding"]} found */
const marksOf = (found) => [found.settling && "settling", found.latched && "over", found.acknowledged && `known: ${found.acknowledged.note || "no note"}`,
  found.maintenance && "maintenance", found.node_lost && "its agent is not connected"].filter(Boolean).join(", ");

/** @param {Schemas["NodeFinding"][]} findings @param {boolean} withNode */
function findingTable(findings, withNode) {
  if (findings.length === 0) return make("p", { class: "quiet" }, "None.");
  return table(["Status", withNode ? "Where" : "Part", "What was seen, and what to do", "Since", ""], findings.map((found) => {
    const what = { node: found.node, id: found.id, subject: found.subject }, key = `${found.node} ${found.id} ${found.subject}`;
    return [badge(found.status),
      make("span", {}, withNode && (found.node ? make("a", { href: link({ view: "nodes", node: found.node }) }, found.node) : "cluster"), " ", found.subject),
      make("div", {}, make("p", {}, found.summary, make("span", { class: "quiet" }, ` ${found.id}${marksOf(found) && ` (${marksOf(found)})`}`)),
        make("p", { class: "next" }, found.next_step),
        make("details", { "data-key": key }, make("summary", {}, "Cause and readings"), make("p", {}, found.cause), make("ul", {}, ...found.evidence.map((line) => make("li", {}, line))))),
      sinceText(found.since),
      found.acknowledged ? button("Take back", () => void acknowledge({ ...what, undo: true }, changed), `ack ${key}`)
        : button("Acknowledge …", () => void askAndAcknowledge(what, `${found.id} on ${found.node || "the cluster"}`, changed), `ack ${key}`)];
  }));
}

// ---- maintenance and pause --------------------------------------------------------------------------------------------

/** @param {Schemas["MaintenanceList"]} list */
function showMaintenance(list) {
  fill(byId("maintenance", HTMLElement), list, () => [
    list.maintenances.length === 0 ? make("p", { class: "quiet" }, "No node is in maintenance.")
      : table(["Nodes", "Since", "Until", "Why", ""], list.maintenances.map((one) => [one.nodes, sinceText(one.since), one.until ? timeText(one.until) : "the file no longer says so", one.note,
        one.from === "operator" && button("End it", () => void setMaintenance(one.nodes, null, ""), `end ${one.nodes}`)])),
    list.file && make("p", { class: "quiet" }, `Nodes are also taken from ${list.file.path}.`),
    make("p", { class: "buttons" }, button("Begin a maintenance …", () => void maintain(""), "begin")),
  ]);
}

/** @param {string} nodes */
async function maintain(nodes) {
  const answer = await ask({
    title: "Maintenance", text: "Findings and incidents of these nodes no longer count, and sweeps leave them out. It ends by itself.",
    fields: [{ name: "nodes", label: "Nodes (* stands for any letters)", value: nodes },
      { name: "hours", label: "For", value: "2", choices: [["1", "1 hour"], ["2", "2 hours"], ["8", "8 hours"], ["24", "a day"], ["168", "a week"]] },
      { name: "note", label: "Why" }],
    confirm: "Begin",
  });
  if (answer) await setMaintenance(answer.nodes.trim(), Number(answer.hours) * 3600, answer.note);
}

/** @param {string} nodes @param {number | null} seconds @param {string} note */
async function setMaintenance(nodes, seconds, note) {
  try {
    await write("POST", "api/v1/maintenance", { nodes, seconds, note });
    say(seconds === null ? `The maintenance of ${nodes} is over.` : `${nodes}: maintenance begins.`);
    await showNodes();
  } catch (error) {
    say(`Nothing was changed: ${wordsOf(error)}`, true);
  }
}

/** @param {string} node @param {"pause" | "resume"} what */
async function pauseNode(node, what) {
  try {
    await write("POST", `api/v1/${what}`, { nodes: [node] });
    say(what === "pause" ? `${node} is paused.` : `${node} goes on.`);
    await showNodes();
  } catch (error) {
    say(`Nothing was changed: ${wordsOf(error)}`, true);
  }
}
