// What is wrong, since when, and what to do: incidents first, then what happened.

import { wordsOf, write } from "./api.js";
import { ask, say } from "./dialogs.js";
import { badge, button, byId, fill, make, pairs, table } from "./dom.js";
import { link } from "./route.js";
import { many, sinceText, timeText } from "./words.js";

/** @typedef {import("./api.js").Schemas} Schemas */
/** @typedef {Schemas["IncidentView"]} Incident */

/** Somebody should look: as `rdmascope incidents` counts them. @param {Incident} incident */
const counts = (incident) => incident.state === "open" && !incident.acknowledged && !incident.maintenance;

/** @param {Schemas["IncidentList"]} list @param {Schemas["StatusView"] | null} status @param {() => void} changed */
export function showIncidents(list, status, changed) {
  const going = list.incidents.filter((incident) => incident.state !== "closed"), over = list.incidents.length - going.length;
  fill(byId("incidents", HTMLElement), [list, status?.endpoints_usable, status?.nodes_connected], () => [
    going.length === 0 && nothing(status),
    ...going.map((incident) => incidentView(incident, changed)),
    (over > 0 || list.left_out > 0) && make("p", { class: "quiet" }, [over && `${many(over, "incident")} over`, list.left_out && `${list.left_out} more`].filter(Boolean).join(", "),
      ": rdmascope incidents --all"),
  ]);
}

/** Nothing known is not the same as nothing wrong. @param {Schemas["StatusView"] | null} status */
function nothing(status) {
  if (!status || status.endpoints === 0) return make("p", { class: "quiet" }, "Nothing is known yet: no endpoint has registered.");
  return make("p", { class: "fine" }, badge("ok"), ` No incident among ${many(status.endpoints_usable, "usable endpoint")}.`,
    status.endpoints_usable < status.endpoints && ` ${many(status.endpoints - status.endpoints_usable, "endpoint")} cannot be probed: see below.`);
}

/** @param {Incident} incident @param {() => void} changed */
function incidentView(incident, changed) {
  const marks = [incident.state === "suspected" && "suspected: being measured again", incident.maintenance && "maintenance", incident.acknowledged && "known"].filter(Boolean);
  const known = incident.acknowledged, key = `incident ${incident.id}`;
  const nodes = incident.nodes.slice(0, 12).flatMap((node) => [make("a", { href: link({ view: "nodes", node }) }, node), " "]);
  const worst = incident.worst;
  return make("article", { class: counts(incident) ? incident.status : "quieted", "data-incident": incident.id },
    make("h3", {}, badge(incident.status), ` ${incident.title}`, marks.length > 0 && make("span", { class: "quiet" }, ` (${marks.join(", ")})`)),
    make("p", { class: "next" }, incident.next_step),
    pairs([
      ["Who", incident.who], ["Since", `${sinceText(incident.since)}; last seen ${sinceText(incident.seen_at)}`],
      ["Seen", incident.evidence[0]], ["How sure", `${incident.confidence}; ${incident.bad_pairs} of ${many(incident.pairs, "pair")} suffer, with ${incident.bad_peers} of ${many(incident.peers, "peer")}`],
      ["The node says", incident.reasons.length > 0 && make("ul", { class: "plain" }, ...incident.reasons.map((reason) => make("li", {}, badge(reason.status), ` ${reason.node} ${reason.subject}: ${reason.summary} ${reason.next_step}`)))],
      ["Nodes", nodes.length > 0 && make("span", {}, ...nodes, incident.nodes.length > 12 && `and ${incident.nodes.length - 12} more`)],
      ["Worst pair", worst && make("a", { href: link({ pair: [worst.source, worst.target] }) }, `${worst.source} → ${worst.target}`)],
      ["Known", known && `${sinceText(known.at)} ${known.note}`],
    ]),
    incident.evidence.length + incident.figures.length > 1 && make("details", { "data-key": `${key} more` }, make("summary", {}, "All that was seen"),
      make("ul", {}, ...[...incident.evidence.slice(1), ...incident.figures].map((seen) => make("li", {}, seen)))),
    make("p", { class: "buttons" },
      known ? button("Take the acknowledgement back", () => void acknowledge({ incident: incident.id, undo: true }, changed), key)
        : incident.state === "open" && button("Acknowledge …", () => void askAndAcknowledge({ incident: incident.id }, `Incident ${incident.id}`, changed), key),
      make("span", { class: "quiet" }, `Ticket: rdmascope incidents ${incident.id}`)));
}

/** @param {Partial<Schemas["AcknowledgeRequest"]>} what @param {string} name @param {() => void} changed */
export async function askAndAcknowledge(what, name, changed) {
  const answer = await ask({ title: `Acknowledge: ${name}`, text: "It stays in sight and no longer counts, until it is over.",
    fields: [{ name: "note", label: "Why, or who works on it" }], confirm: "Acknowledge" });
  if (answer) await acknowledge({ ...what, note: answer.note }, changed);
}

/** @param {Partial<Schemas["AcknowledgeRequest"]>} what @param {() => void} changed */
export async function acknowledge(what, changed) {
  try {
    await write("POST", "api/v1/acknowledgements", what);
    say(what.undo ? "It counts again." : "Acknowledged.");
    changed();
  } catch (error) {
    say(`Not acknowledged: ${wordsOf(error)}`, true);
  }
}

/** @param {Schemas["EventView"][]} events the newest first */
export function showHappened(events) {
  fill(byId("happened", HTMLElement), events.map((event) => event.number), () => [eventTable(events)]);
}

/** @param {Schemas["EventView"][]} events */
export function eventTable(events) {
  if (events.length === 0) return make("p", { class: "quiet" }, "Nothing yet.");
  return table(["When", "Where", "What"], events.map((event) => [make("time", { datetime: event.at }, timeText(event.at)),
    make("span", {}, event.node ? make("a", { href: link({ view: "nodes", node: event.node }) }, event.node) : "cluster", event.subject && ` ${event.subject}`),
    make("span", {}, event.text || `${event.before} → ${event.after}`, make("span", { class: "quiet" }, ` ${event.kind}${event.id ? `, ${event.id}` : ""}`))]));
}
