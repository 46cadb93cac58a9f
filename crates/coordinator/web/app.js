// Lists incidents and findings, draws the matrix, and shows what is known of a pair; everything comes from the coordinator's public API.
"use strict";

const REFRESH_MS = 5000;
const FAILED_SHOWN_MAX = 200;
const FINDINGS_SHOWN_MAX = 50;
const INCIDENTS_SHOWN_MAX = 50;
const LABEL_FONT = "12px system-ui, sans-serif";
// Cividis (Nuñez, Anderson, Renslow 2018): its lightness rises evenly for every kind of colour vision.
const RAMP = [[0, 34, 78], [18, 53, 112], [59, 73, 108], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116],
  [195, 179, 105], [225, 204, 85], [254, 232, 56]];
const STATES = { f: "fresh", s: "stale", n: "never measured", x: "failed", e: "not probed" };

const byId = (id) => document.getElementById(id);
const state = { metric: "latency", metricChosen: false, matrix: null, etags: {}, bodies: {}, cursor: null, chosen: null, layout: null, findings: "" };

function element(tag, text, className) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function latencyText(ns) {
  if (ns === null || ns === undefined) return "–";
  if (ns < 1e3) return `${ns} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(3)} µs`;
  return ns < 1e9 ? `${(ns / 1e6).toPrecision(3)} ms` : `${(ns / 1e9).toPrecision(3)} s`;
}

function bandwidthText(bits) {
  if (bits === null || bits === undefined) return "–";
  if (bits < 1e6) return `${(bits / 1e3).toPrecision(3)} kb/s`;
  return bits < 1e9 ? `${(bits / 1e6).toPrecision(3)} Mb/s` : `${(bits / 1e9).toPrecision(3)} Gb/s`;
}

const valueText = (value) => (state.metric === "bandwidth" ? bandwidthText(value) : latencyText(value));

const TITLES = { latency: "Latency (median)", bandwidth: "Bandwidth (average)", ping: "Pings (median network round trip, ! = loss)" };

function ageText(seconds) {
  if (seconds === null || seconds === undefined) return "never";
  if (seconds < 120) return `${Math.round(seconds)} s ago`;
  return seconds < 7200 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
}

// ---- the matrix -----------------------------------------------------------------------------------------------------

// Share of pings that a pair loses; 0 where nothing is known of it.
const lossAt = (source, target) => state.matrix.loss_ratio?.[source][target] ?? 0;

const lossText = (ratio) => `${(ratio * 100).toPrecision(3)} % lost`;

const values = (matrix) => matrix.p50_ns ?? matrix.average_bits_per_second;

// The range of the fresh values, on a logarithmic scale; one outlier still gets its own end of it.
function scaleOf(matrix) {
  let low = Infinity, high = 0;
  values(matrix).forEach((row, source) => row.forEach((value, target) => {
    if (value === null || matrix.state[source][target] !== "f") return;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }));
  if (high === 0) return null;
  // A range below a factor of two would paint noise in full contrast.
  if (high < low * 2) {
    const middle = Math.sqrt(low * high);
    low = Math.min(low, middle / Math.SQRT2);
    high = Math.max(high, middle * Math.SQRT2);
  }
  return { low, high, of: (value) => Math.min(1, Math.max(0, Math.log(value / low) / Math.log(high / low))) };
}

function rampColour(share) {
  const at = share * (RAMP.length - 1), base = Math.min(RAMP.length - 2, Math.floor(at)), part = at - base;
  return RAMP[base].map((from, i) => Math.round(from + (RAMP[base + 1][i] - from) * part));
}

// Steps made once: making the text of a colour for each cell costs more than painting it.
const SHADES = Array.from({ length: 128 }, (_, i) => {
  const rgb = rampColour(i / 127), light = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 130;
  return { fill: `rgb(${rgb.join(" ")})`, ink: light ? "#16181d" : "#ffffff" };
});
const shadeOf = (share) => SHADES[Math.round(share * (SHADES.length - 1))];

function theme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return Object.fromEntries(["ground", "panel", "ink", "quiet", "line", "bad"].map((name) => [name, read(`--${name}`)]));
}

function hatch(pen, x, y, size, colour, gap) {
  pen.save();
  pen.beginPath(); pen.rect(x, y, size, size); pen.clip();
  pen.strokeStyle = colour; pen.lineWidth = Math.max(1, size / 24); pen.beginPath();
  for (let at = -size; at < size; at += gap) { pen.moveTo(x + at, y + size); pen.lineTo(x + at + size, y); }
  pen.stroke(); pen.restore();
}

// Every state has a shape of its own besides its colour.
function drawCell(pen, colours, letter, shade, text, x, y, size) {
  const edge = size > 8 ? 1 : 0, inner = size - edge;
  const middle = [x + inner / 2, y + inner / 2];
  if (letter === "f" || letter === "s") {
    pen.fillStyle = shade ? shade.fill : colours.panel;
    pen.fillRect(x, y, inner, inner);
    if (letter === "s") hatch(pen, x, y, inner, shade ? shade.ink : colours.ink, Math.max(4, inner / 5));
    if (text && letter === "f") {
      pen.fillStyle = shade ? shade.ink : colours.ink;
      pen.fillText(text, ...middle);
    }
  } else if (letter === "x") {
    pen.fillStyle = colours.bad; pen.fillRect(x, y, inner, inner);
    const pad = inner * 0.25;
    pen.strokeStyle = colours.ground; pen.lineWidth = Math.max(1, inner / 12); pen.beginPath();
    pen.moveTo(x + pad, y + pad); pen.lineTo(x + inner - pad, y + inner - pad);
    pen.moveTo(x + inner - pad, y + pad); pen.lineTo(x + pad, y + inner - pad); pen.stroke();
  } else if (letter === "e") {
    pen.fillStyle = colours.panel; pen.fillRect(x, y, inner, inner);
    pen.strokeStyle = colours.quiet; pen.lineWidth = Math.max(1, inner / 12); pen.beginPath();
    pen.moveTo(x + inner * 0.25, middle[1]); pen.lineTo(x + inner * 0.75, middle[1]); pen.stroke();
  } else if (letter === "n" && size > 4) {
    pen.strokeStyle = colours.line; pen.lineWidth = 1; pen.strokeRect(x + 0.5, y + 0.5, inner - 1, inner - 1);
    pen.fillStyle = colours.quiet; pen.beginPath(); pen.arc(...middle, Math.max(1, inner / 12), 0, 2 * Math.PI); pen.fill();
  }
}

function prepare(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`; canvas.style.height = `${height}px`;
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  return pen;
}

function layoutOf(count, names, room) {
  const pen = byId("matrix").getContext("2d");
  pen.font = LABEL_FONT;
  const longest = Math.ceil(Math.max(...names.map((name) => pen.measureText(name).width)));
  const size = Math.max(3, Math.min(72, Math.floor((room - longest - 24) / count)));
  const labels = size >= 14;
  return { size, labels, left: labels ? longest + 14 : 4, top: labels ? Math.min(longest, 200) + 14 : 4 };
}

function draw() {
  const matrix = state.matrix, count = matrix.endpoints.length, colours = theme();
  byId("scroll").hidden = count === 0;
  if (count === 0) return;
  const layout = state.layout = layoutOf(count, matrix.endpoints, byId("map").clientWidth);
  const { size, labels, left, top } = layout;
  const pen = prepare(byId("matrix"), left + count * size + 6, top + count * size + 6);
  if (labels) {
    pen.font = LABEL_FONT; pen.fillStyle = colours.ink; pen.textBaseline = "middle";
    matrix.endpoints.forEach((name, i) => {
      pen.textAlign = "right";
      pen.fillText(name, left - 8, top + (i + 0.5) * size);
      pen.save();
      pen.translate(left + (i + 0.5) * size, top - 8);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "left";
      pen.fillText(name, 0, 0);
      pen.restore();
    });
  }
  pen.font = LABEL_FONT; pen.textAlign = "center"; pen.textBaseline = "middle";
  const scale = scaleOf(matrix), cells = values(matrix);
  for (let source = 0; source < count; source++) {
    for (let target = 0; target < count; target++) {
      const value = cells[source][target];
      const shade = value !== null && scale ? shadeOf(scale.of(value)) : null;
      const text = size >= 56 ? valueText(value) + (lossAt(source, target) ? " !" : "") : "";
      drawCell(pen, colours, matrix.state[source][target], shade, text, left + target * size, top + source * size, size);
    }
  }
  placeFrames();
  drawLegend(scale, colours);
}

// The frames lie above the canvas, so that pointing at a cell of a large matrix does not draw all of it again.
function placeFrames() {
  for (const [id, cell] of [["cursor", state.cursor], ["chosen", state.chosen]]) {
    const frame = byId(id), at = cell && indexOf(cell);
    frame.hidden = !at;
    if (!at) continue;
    const { size, left, top } = state.layout;
    frame.style.left = `${left + at[1] * size - 2}px`;
    frame.style.top = `${top + at[0] * size - 2}px`;
    frame.style.width = frame.style.height = `${size + 3}px`;
  }
}

function drawLegend(scale, colours) {
  const width = 260, pen = prepare(byId("ramp"), width, 34);
  pen.font = LABEL_FONT; pen.fillStyle = colours.ink; pen.textBaseline = "top";
  if (scale) {
    for (let x = 0; x < width; x++) { pen.fillStyle = shadeOf(x / (width - 1)).fill; pen.fillRect(x, 0, 1, 14); }
    pen.fillStyle = colours.ink;
    const words = state.metric === "bandwidth" ? [" (slowest)", ""] : ["", " (slowest)"];
    pen.textAlign = "left"; pen.fillText(valueText(Math.round(scale.low)) + words[0], 0, 18);
    pen.textAlign = "right"; pen.fillText(valueText(Math.round(scale.high)) + words[1], width, 18);
  }
  const list = byId("states");
  list.replaceChildren(...Object.entries(STATES).map(([letter, words]) => {
    const sample = document.createElement("canvas"), item = element("li");
    sample.setAttribute("aria-hidden", "true");
    drawCell(prepare(sample, 20, 20), colours, letter, shadeOf(0.65), "", 0, 0, 20);
    item.append(sample, words);
    return item;
  }));
}

const nameAt = ([source, target]) => [state.matrix.endpoints[source], state.matrix.endpoints[target]];

function indexOf([source, target]) {
  const at = [state.matrix.endpoints.indexOf(source), state.matrix.endpoints.indexOf(target)];
  return at.includes(-1) ? null : at;
}

function describe([source, target]) {
  const [from, to] = nameAt([source, target]);
  if (source === target) return `${from}: an endpoint is not paired with itself`;
  const letter = state.matrix.state[source][target], value = values(state.matrix)[source][target];
  const loss = lossAt(source, target);
  return `${from} → ${to}: ${STATES[letter] ?? letter}${value === null ? "" : `, ${valueText(value)}`}${loss ? `, ${lossText(loss)}` : ""}`;
}

function moveCursor(at) {
  state.cursor = at && nameAt(at);
  byId("hint").textContent = at ? describe(at) : "Point at a cell, or use the arrow keys.";
  placeFrames();
}

function cellUnder(event) {
  const { size, left, top } = state.layout ?? {}, count = state.matrix?.endpoints.length ?? 0;
  if (!size) return null;
  const target = Math.floor((event.offsetX - left) / size), source = Math.floor((event.offsetY - top) / size);
  return source >= 0 && target >= 0 && source < count && target < count ? [source, target] : null;
}

// ---- one pair -------------------------------------------------------------------------------------------------------

function rows(pairs) {
  const table = element("table");
  for (const [name, text] of pairs.filter(([, text]) => text !== null && text !== undefined && text !== "")) {
    const row = element("tr");
    row.append(element("th", name), element("td", String(text)));
    table.append(row);
  }
  return table;
}

function failureView(failure) {
  const box = element("div");
  box.append(element("p", failure.text, "bad"), element("p", failure.next_step, "next"));
  box.append(rows([["Cause", failure.cause], ["At step", failure.step], ["Seen by", failure.side], ["Evidence", failure.evidence]]));
  return box;
}

function cellView(title, cell, figures) {
  const box = element("section");
  box.append(element("h3", `${title}: ${cell.state}${cell.excluded ? ` (${cell.excluded})` : ""}`));
  if (cell.failure) box.append(failureView(cell.failure));
  box.append(rows([
    ["Measured", cell.measured_at ? `${ageText(cell.age_seconds)}, ${cell.measured_at}` : "never"],
    ...(cell.figures ? figures(cell.figures) : []),
    ["Over the median of all pairs", cell.ratio_to_median === null ? null : `${cell.ratio_to_median.toFixed(2)} ×`],
    ["Sent again during the probe", cell.retransmits ?? (cell.figures && cell.method !== "ud_network_rtt" ? "not counted by the driver" : null)],
    ["Method", cell.method],
  ]));
  return box;
}

const orTooFew = (ns) => (ns === null ? "too few samples" : latencyText(ns));

const latencyRows = (f) => [["Median", latencyText(f.p50_ns)], ["Smallest", latencyText(f.min_ns)], ["90 %", latencyText(f.p90_ns)],
  ["99 %", orTooFew(f.p99_ns)], ["99.9 %", orTooFew(f.p999_ns)], ["Largest", latencyText(f.max_ns)], ["Samples", f.count],
  ["Samples held up by the host", f.host_delayed]];

const bandwidthRows = (f) => [["Average", bandwidthText(f.average_bits_per_second)],
  ["Slowest tenth of the time", bandwidthText(f.worst_window_bits_per_second)], ["Measured for", latencyText(f.duration_ns)],
  ["Writes", f.count]];

const sizeText = (size) => (size.sent === 0 ? null : [
  `${size.answered} of ${size.sent} answered`,
  size.lost_forward === null ? "direction of loss not known" : `${size.lost_forward} lost there, ${size.lost_backward} lost back`,
  ...[["late", size.late], ["twice", size.duplicate], ["reordered", size.reordered]].filter(([, n]) => n).map(([word, n]) => `${n} ${word}`),
].join(", "));

const spreadText = (p50, max) => (p50 === null ? "–" : `${latencyText(p50)}, largest ${latencyText(max)}`);

const pingRows = (f) => [["In the network", spreadText(f.network_p50_ns, f.network_max_ns)], ["Large pings, in the network", latencyText(f.large_p50_ns)],
  ["Inside the responder", spreadText(f.responder_p50_ns, f.responder_max_ns)], ["Inside the prober", spreadText(f.prober_p50_ns, f.prober_max_ns)],
  [`${f.small.payload_bytes} B`, sizeText(f.small)], [`${f.large.payload_bytes} B`, sizeText(f.large)],
  ["Loss", f.loss_ratio === null ? null : lossText(f.loss_ratio)], ["Held up by a host", f.host_delayed], ["To an old queue pair", f.stale || null],
  ["Without usable stamps", f.invalid_stamps || null], ["Clock", f.clock],
  ["Worst path label", f.worst_label && `${f.worst_label.flow_label}: ${f.worst_label.answered} of ${f.worst_label.sent} answered, ${latencyText(f.worst_label.p50_ns)}`]];

function verdictView(verdict) {
  const box = element("div");
  box.append(element("p", verdict.text, "bad"), element("p", verdict.next_step, "next"), rows([["Verdict", verdict.id], ["Evidence", verdict.evidence]]));
  return box;
}

const nodeOf = (endpoint) => endpoint.split("/")[0];

async function showPair(source, target) {
  state.chosen = [source, target];
  placeFrames();
  const box = byId("pair");
  try {
    const answer = await fetch(`api/v1/pairs/${encodeURIComponent(source)}/${encodeURIComponent(target)}`, { cache: "no-store" });
    const pair = await answer.json();
    if (!answer.ok) throw new Error(pair.detail ?? answer.statusText);
    const other = element("button", "Other direction");
    other.addEventListener("click", () => showPair(target, source));
    const name = element("p");
    name.append(element("code", source), " → ", element("code", target), " · findings of ", nodeLink(nodeOf(source)), ", ",
      nodeLink(nodeOf(target)));
    box.replaceChildren(name, ...pair.verdicts.map(verdictView), cellView("Pings", pair.ping, pingRows),
      cellView("Latency", pair.latency, latencyRows), cellView("Bandwidth", pair.bandwidth, bandwidthRows), other);
  } catch (error) {
    box.replaceChildren(element("p", `The pair could not be read: ${error.message}`, "bad"));
  }
}

// ---- lists and banners ----------------------------------------------------------------------------------------------

function tableWithHead(words) {
  const table = element("table"), head = element("tr");
  head.append(...words.map((word) => element("th", word)));
  table.append(head);
  return table;
}

function showFailed(matrix) {
  const failed = matrix.causes.filter((row) => row.state === "failed");
  const more = Math.max(0, failed.length - FAILED_SHOWN_MAX) + matrix.causes_left_out;
  if (failed.length === 0) return byId("failed").replaceChildren(element("p", "None.", "quiet"));
  const table = tableWithHead(["Source", "Target", "What happened", "What to do next"]);
  for (const row of failed.slice(0, FAILED_SHOWN_MAX)) {
    const line = element("tr"), words = matrix.cause_texts[row.cause] ?? { text: row.cause, next_step: "" };
    const what = element("td", words.text), name = element("button", row.source, "name");
    what.append(element("div", `${row.cause}, step ${row.step}, seen by the ${row.side}`, "quiet"));
    name.addEventListener("click", () => showPair(row.source, row.target));
    const first = element("td", undefined, "name");
    first.append(name);
    line.append(first, element("td", row.target, "name"), what, element("td", words.next_step));
    table.append(line);
  }
  byId("failed").replaceChildren(table, ...(more ? [element("p", `and ${more} more`, "quiet")] : []));
}

function showUnusable(endpoints) {
  const bad = endpoints.filter((endpoint) => !endpoint.usable);
  if (bad.length === 0) return byId("unusable").replaceChildren(element("p", "None.", "quiet"));
  const table = tableWithHead(["Endpoint", "Why", "What to do next"]);
  table.append(...bad.map((endpoint) => {
    const line = element("tr"), why = endpoint.unusable;
    const what = element("td", why?.text ?? `Gone since ${endpoint.gone_since}.`);
    if (why?.detail) what.append(element("div", why.detail, "quiet"));
    const name = element("td", `${endpoint.name} `, "name"), findings = nodeLink(nodeOf(endpoint.name));
    findings.textContent = "findings";
    name.append(findings);
    line.append(name, what, element("td", why?.next_step ?? "See whether its node and agent run."));
    return line;
  }));
  byId("unusable").replaceChildren(table);
}

// What becomes of a finding, in the words of `rdmascope findings`.
const marksOf = (found) => [
  [found.settling, "settling"], [found.latched, "over"], [found.acknowledged, `acknowledged: ${found.acknowledged?.note || "no note"}`],
  [found.maintenance, "maintenance"], [found.node_lost, "its agent is not connected"],
].filter(([is]) => is).map(([, mark]) => mark).join(", ");

const nodeLink = (node) => {
  const link = element("a", node);
  link.href = `#node=${encodeURIComponent(node)}`;
  return link;
};

// Somebody should look: as `rdmascope incidents` counts them.
const counts = (incident) => incident.state === "open" && !incident.acknowledged && !incident.maintenance;

// An incident in the words of `rdmascope incidents`.
function incidentView(incident) {
  const box = element("article", undefined, counts(incident) && incident.status === "fail" ? "bad" : undefined);
  const marks = [[incident.state === "suspected", "suspected: being measured again"], [incident.maintenance, "maintenance"]]
    .filter(([is]) => is).map(([, mark]) => ` (${mark})`).join("");
  const known = incident.acknowledged;
  const words = [
    ["who", incident.who], ["since", `${incident.since}, last seen ${incident.seen_at}`],
    ...incident.evidence.map((seen) => ["seen", seen]),
    ["next step", incident.next_step], ["known", known ? `${known.at} ${known.note}` : ""],
  ].filter(([, text]) => text);
  const table = element("table");
  table.append(...words.map(([name, text]) => {
    const line = element("tr");
    line.append(element("th", name), element("td", text, name === "next step" ? "next" : undefined));
    return line;
  }));
  box.append(element("h3", `${incident.status} · incident ${incident.id}: ${incident.title}${marks}`), table);
  return box;
}

function showIncidents(list) {
  const going = list.incidents.filter((incident) => incident.state !== "closed");
  const over = list.incidents.length - going.length;
  const rest = [
    ...(list.left_out ? [element("p", `and ${list.left_out} more: rdmascope incidents --all`, "quiet")] : []),
    ...(over && !list.left_out ? [element("p", `${over} over: rdmascope incidents --all`, "quiet")] : []),
  ];
  const shown = going.length ? going.map(incidentView) : [element("p", "None.", "quiet")];
  byId("incidents").replaceChildren(...shown, ...rest);
}

function showFindings(list) {
  // Drawn again only when it changed: a person may be selecting text in it.
  const text = JSON.stringify([chosenNode(), list]);
  if (text === state.findings) return;
  state.findings = text;
  const node = chosenNode(), of = byId("of-node");
  of.hidden = !node;
  const all = element("a", "all nodes");
  all.href = "#";
  of.replaceChildren("Only ", element("code", node), " · ", all);
  if (list.findings.length === 0) return byId("findings").replaceChildren(element("p", "None.", "quiet"));
  const table = tableWithHead(["Status", "Node", "Part", "What was seen", "What to do next", "Since"]);
  table.append(...list.findings.map((found) => {
    const line = element("tr"), marks = marksOf(found), what = element("td", found.summary), name = element("td", undefined, "name");
    what.append(element("div", `${found.id}${marks ? ` (${marks})` : ""}`, "quiet"));
    name.append(found.node ? nodeLink(found.node) : "cluster");
    const open = !found.acknowledged && !found.maintenance;
    line.append(element("td", found.status, open && found.status === "fail" ? "bad" : undefined), name,
      element("td", found.subject, "name"), what, element("td", found.next_step), element("td", found.since ?? "", "name"));
    return line;
  }));
  const more = list.left_out ? [element("p", `and ${list.left_out} more: rdmascope findings`, "quiet")] : [];
  byId("findings").replaceChildren(table, ...more);
}

// The address names the node whose findings are shown, so that it can be sent to somebody.
function chosenNode() {
  try {
    return decodeURIComponent(/^#node=(.+)$/.exec(location.hash)?.[1] ?? "");
  } catch {
    return "";
  }
}

function findingsPath() {
  const node = chosenNode();
  return `api/v1/findings?limit=${FINDINGS_SHOWN_MAX}${node ? `&node=${encodeURIComponent(node)}` : ""}`;
}

function banner(text, bad) { return element("p", text, bad ? "banner bad" : "banner"); }

const nodePause = (pause) => `${pause.node} (${pause.level}${pause.local_file ? ", by its own file" : ""})`;

function showStatus(status) {
  const { sweep, paused } = status;
  byId("summary").textContent = [
    `${status.nodes_connected} of ${status.nodes} nodes connected, ${status.endpoints_usable} of ${status.endpoints} endpoints usable`,
    ...(sweep ? [`${sweep.metric} sweep ${sweep.state}: ${sweep.done} of ${sweep.total}`] : []),
    `version ${status.version}`,
  ].join(" · ");
  const banners = [];
  if (status.insecure) banners.push(banner("Insecure: this coordinator is open to the network without credentials.", true));
  if (paused.cluster !== "none") {
    const what = paused.cluster === "all" ? "every probe" : "bandwidth probes";
    banners.push(banner(`Paused on the whole cluster: ${what}. To go on: rdmascope resume`));
  }
  if (paused.nodes.length) {
    const named = paused.nodes.slice(0, 8).map(nodePause).join(", ") + (paused.nodes.length > 8 ? ", …" : "");
    banners.push(banner(`Paused on ${paused.nodes.length} ${paused.nodes.length === 1 ? "node" : "nodes"}: ${named}`));
  }
  byId("banners").replaceChildren(...banners);
}

function showMatrix(matrix) {
  state.matrix = matrix;
  const counts = {};
  for (const row of matrix.state) for (const letter of row) counts[letter] = (counts[letter] ?? 0) + 1;
  const parts = Object.entries(STATES).filter(([letter]) => counts[letter]).map(([letter, words]) => `${counts[letter]} ${words}`);
  byId("map-title").textContent = `${TITLES[state.metric]} from source (row) to target (column)`;
  byId("numbers").textContent = matrix.endpoints.length === 0
    ? "No endpoint has registered yet. Start an agent: rdmascope agent --coordinator HOST:PORT"
    : `${matrix.endpoints.length} endpoints: ${parts.join(", ") || "no pairs"}. Median ${valueText(matrix.median)}. `
      + `Stale after ${Math.round(matrix.stale_after_seconds)} s. ${matrix.method}, clock ${matrix.clock}.`;
  byId("csv").href = `api/v1/matrix?metric=${state.metric}&format=csv`;
  draw();
  showFailed(matrix);
}

// ---- talking to the coordinator -------------------------------------------------------------------------------------

// The answer, or null when it is the same as last time.
async function read(path) {
  const etag = state.etags[path];
  const answer = await fetch(path, { cache: "no-store", headers: etag ? { "If-None-Match": etag } : {} });
  if (answer.status === 304) return null;
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.detail ?? answer.statusText);
  state.etags[path] = answer.headers.get("ETag");
  return body;
}

async function refresh() {
  try {
    await chooseByItself();
    const metric = state.metric, path = `api/v1/matrix?metric=${metric}`;
    const asked = findingsPath();
    const [status, incidents, endpoints, findings, matrix] = await Promise.all([read("api/v1/status"),
      read(`api/v1/incidents?limit=${INCIDENTS_SHOWN_MAX}`), read("api/v1/endpoints"), read(asked), read(path)]);
    if (status) showStatus(status);
    if (incidents) showIncidents(incidents);
    if (findings && asked === findingsPath()) showFindings(findings);
    if (endpoints) showUnusable(endpoints.endpoints);
    if (matrix) state.bodies[metric] = matrix;
    const current = state.bodies[metric];
    if (metric === state.metric && current && current !== state.matrix) {
      showMatrix(current);
      if (state.chosen) await showPair(...state.chosen);
    }
    byId("offline")?.remove();
  } catch (error) {
    if (!byId("offline")) {
      const notice = banner("", true);
      notice.id = "offline";
      byId("banners").prepend(notice);
    }
    byId("offline").textContent = `The coordinator does not answer (${error.message}). What is shown below is from before.`;
  }
}

async function forever() {
  for (;;) {
    if (!document.hidden) await refresh();
    await new Promise((done) => setTimeout(done, REFRESH_MS));
  }
}

function choose(metric) {
  state.metric = metric;
  byId("metrics").querySelector(`input[value="${metric}"]`).checked = true;
}

// Where there are pings, they are the map that is kept fresh: it is shown first, unless somebody has chosen another.
async function chooseByItself() {
  if (state.metricChosen) return;
  const pings = await read("api/v1/matrix?metric=ping");
  if (pings) state.bodies.ping = pings;
  const known = pings?.state.some((row) => /[fsx]/.test(row));
  if (known && !state.metricChosen) { state.metricChosen = true; choose("ping"); }
}

byId("metrics").addEventListener("change", (event) => { state.metricChosen = true; choose(event.target.value); refresh(); });
const canvas = byId("matrix");
canvas.addEventListener("mousemove", (event) => moveCursor(cellUnder(event)));
canvas.addEventListener("mouseleave", () => moveCursor(null));
canvas.addEventListener("click", (event) => { const at = cellUnder(event); if (at && at[0] !== at[1]) showPair(...nameAt(at)); });
canvas.addEventListener("keydown", (event) => {
  if (!state.matrix?.endpoints.length) return;
  const [source, target] = (state.cursor && indexOf(state.cursor)) ?? [0, 0], last = state.matrix.endpoints.length - 1;
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (steps[event.key]) {
    event.preventDefault();
    moveCursor([source + steps[event.key][0], target + steps[event.key][1]].map((at) => Math.min(last, Math.max(0, at))));
  } else if (event.key === "Enter" && source !== target) {
    showPair(...nameAt([source, target]));
  }
});
window.addEventListener("hashchange", refresh);
window.addEventListener("resize", () => state.matrix && draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.matrix && draw());
forever();
