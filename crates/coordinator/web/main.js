// Starts the page: which part of it is seen, what is read again and when, and the banners above all parts.

import { read, wordsOf } from "./api.js";
import { byId, button, fill, make, table } from "./dom.js";
import { showHappened, showIncidents } from "./incidents.js";
import { listen } from "./live.js";
import { chooseLayer, loadMap, showChosen, showMap, showPlaces } from "./map.js";
import { showNodes } from "./nodes.js";
import { closePair, showPair } from "./pair.js";
import { link, route } from "./route.js";
import { setPause, showSweeps } from "./sweeps.js";
import { many, nodeOf, sinceText } from "./words.js";

/** @typedef {import("./api.js").Schemas} Schemas */

const INCIDENTS_MAX = 50, EVENTS_MAX = 30, UNUSABLE_MAX = 100;
/** Milliseconds: what events tell of anyway, without them, and while a sweep runs. */
const CALM = 15_000, ALONE = 5_000, BUSY = 1_000;
/** Events often come in crowds; together they are one reason to look. */
const TOGETHER = 300;

const state = {
  /** @type {Schemas["EventView"][]} */
  events: [],
  live: false,
  offline: "",
  running: false,
  /** @type {Schemas["StatusView"] | null} */
  status: null,
};

// ---- banners ----------------------------------------------------------------------------------------------------------

/** @param {Schemas["StatusView"]} status */
function banners(status) {
  const { paused, insecure } = status, [first] = paused.nodes;
  fill(byId("banners", HTMLElement), [paused, insecure, state.offline], () => [
    state.offline && make("p", { class: "banner bad" }, `The coordinator does not answer (${state.offline}). What is shown below is from before.`),
    insecure && make("p", { class: "banner bad" }, "Insecure: this coordinator is open to the network without a token. Anybody who reaches it can start and stop probes. "
      + "To end this: rdmascope coordinator --token-file FILE"),
    paused.cluster !== "none" && make("p", { class: "banner" }, `Paused on the whole cluster: ${paused.cluster === "all" ? "every probe" : "bandwidth probes"}. What is shown grows old. `,
      button("Resume", () => void setPause("resume", false), "banner-resume")),
    first && make("p", { class: "banner" }, `Paused on ${many(paused.nodes.length, "node")}: `, make("a", { href: link({ view: "nodes", node: first.node }) }, first.node),
      paused.nodes.length > 1 ? " and others." : "."),
  ]);
}

/** @param {Schemas["StatusView"]} status */
function summary(status) {
  const { sweep, incidents } = status;
  byId("summary", HTMLElement).textContent = [
    `${status.nodes_connected} of ${many(status.nodes, "node")} connected`, `${status.endpoints_usable.toLocaleString("en")} of ${many(status.endpoints, "endpoint")} usable`,
    ...(sweep && sweep.state === "running" ? [`${sweep.metric} sweep: ${sweep.done} of ${sweep.total}`] : []), `version ${status.version}`].join(" · ");
  const open = incidents?.open ?? 0;
  document.title = open > 0 ? `(${open}) rdmascope` : "rdmascope";
}

// ---- the view "now" ---------------------------------------------------------------------------------------------------

/** @param {Schemas["EndpointView"][]} endpoints */
function showUnusable(endpoints) {
  const bad = endpoints.filter((endpoint) => !endpoint.usable);
  fill(byId("unusable", HTMLElement), bad, () => [
    bad.length === 0 ? make("p", { class: "quiet" }, endpoints.length ? "None." : "No endpoint is known yet.")
      : table(["Endpoint", "Why", "What to do"], bad.slice(0, UNUSABLE_MAX).map((endpoint) => [
        make("a", { href: link({ view: "nodes", node: nodeOf(endpoint.name) }) }, endpoint.name),
        endpoint.unusable ? `${endpoint.unusable.text} ${endpoint.unusable.detail}` : `Its agent no longer tells of it, or is not connected, since ${sinceText(endpoint.gone_since)}.`,
        endpoint.unusable?.next_step ?? "See whether its node and agent run."])),
    bad.length > UNUSABLE_MAX && make("p", { class: "quiet" }, `and ${bad.length - UNUSABLE_MAX} more`),
  ]);
}

async function showNow() {
  const [incidents, endpoints] = await Promise.all([
    /** @type {Promise<Schemas["IncidentList"]>} */ (read(`api/v1/incidents?limit=${INCIDENTS_MAX}`)),
    /** @type {Promise<Schemas["EndpointList"]>} */ (read("api/v1/endpoints")),
  ]);
  showIncidents(incidents, state.status, refresh);
  showPlaces(endpoints.endpoints);
  showUnusable(endpoints.endpoints);
  showHappened(state.events);
}

// ---- reading again ----------------------------------------------------------------------------------------------------

/** @type {number | undefined} */
let planned;

/** Reads what the seen part shows; the next time by itself, or when something happens. */
async function refresh() {
  clearTimeout(planned);
  try {
    const status = await /** @type {Promise<Schemas["StatusView"]>} */ (read("api/v1/status"));
    state.status = status;
    state.offline = "";
    banners(status);
    summary(status);
    const { view } = route();
    state.running = status.sweep?.state === "running";
    if (view === "now") await showNow();
    else if (view === "nodes") await showNodes();
    else state.running = await showSweeps();
  } catch (error) {
    state.offline = wordsOf(error);
    if (state.status) banners(state.status);
    else byId("summary", HTMLElement).textContent = `The coordinator does not answer: ${state.offline}`;
  }
  clearTimeout(planned);
  planned = setTimeout(refresh, state.running && route().view === "sweeps" ? BUSY : state.live ? CALM : ALONE);
}

/** @type {number | undefined} */
let mapPlanned;

/** The map has a pace of its own, and rests while nobody sees it. */
async function refreshMap() {
  clearTimeout(mapPlanned);
  let wait = ALONE;
  try {
    if (!document.hidden && route().view === "now") {
      wait = await loadMap();
      await showPair();
    }
  } catch (error) {
    state.offline = wordsOf(error);
    if (state.status) banners(state.status);
  }
  clearTimeout(mapPlanned);
  mapPlanned = setTimeout(refreshMap, wait);
}

/** @param {string} kind @param {unknown} data */
function happened(kind, data) {
  // An incident itself stands in the list; the history has its own line of it.
  if (kind !== "incident") state.events = [/** @type {Schemas["EventView"]} */ (data), ...state.events].slice(0, EVENTS_MAX);
  clearTimeout(planned);
  planned = setTimeout(refresh, TOGETHER);
}

// ---- which part is seen -----------------------------------------------------------------------------------------------

let before = { view: "", layer: "", map: "" };

function showRoute() {
  const { view, layer, rail, order, direction, pair, node } = route(), map = [view, layer, rail, order, direction].join(" ");
  for (const part of document.querySelectorAll("main > div")) if (part instanceof HTMLElement) part.hidden = part.id !== `view-${view}`;
  for (const anchor of document.querySelectorAll("nav a")) {
    if (!(anchor instanceof HTMLAnchorElement)) continue;
    const own = anchor.dataset.view === view;
    if (own) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
    anchor.href = link({ view: /** @type {import("./route.js").View} */ (anchor.dataset.view), node: "" });
  }
  const away = before.view !== view || before.layer !== layer;
  if (view === "now" && before.map !== map) showMap();
  before = { view, layer, map };
  if (away && view === "now") void refreshMap();
  if (away || view !== "now" || node) void refresh();
  showChosen();
  if (pair) void showPair();
  else closePair();
}

async function start() {
  addEventListener("hashchange", showRoute);
  // The address names what is seen, so the skip link must not change it.
  document.querySelector(".skip")?.addEventListener("click", (event) => { event.preventDefault(); byId("main", HTMLElement).focus(); });
  addEventListener("refresh", () => { void refresh(); void refreshMap(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { void refresh(); void refreshMap(); } });
  listen(happened, (connected) => {
    state.live = connected;
    byId("live", HTMLElement).textContent = connected ? "● live" : "○ asking every few seconds";
  });
  try {
    const [told] = await Promise.all([/** @type {Promise<Schemas["EventList"]>} */ (read(`api/v1/events?limit=${EVENTS_MAX}`)), chooseLayer()]);
    state.events = told.events;
  } catch {
    // The first look says that nobody answers.
  }
  showRoute();
}

void start();
