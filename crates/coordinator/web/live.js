// What happens, as it happens: the coordinator's server-sent events.

/** @typedef {import("./api.js").Schemas} Schemas */

/** Every kind that the coordinator tells of; the stream has none without a name. */
const KINDS = ["state-change", "finding-raised", "finding-cleared", "kernel-log", "setting-change", "agent-connected", "agent-lost", "events-lost",
  "drift-raised", "drift-cleared", "acknowledgement", "maintenance", "membership", "forced-probe", "drain-leave", "incident-opened", "incident-closed", "incident"];
/** What a reader that was let go waits before it comes back, milliseconds; a browser does so by itself after a lost connection. */
const AGAIN_AFTER = 5_000;

/**
 * Listens for good. @param {(kind: string, data: unknown) => void} happened @param {(connected: boolean) => void} connection
 */
export function listen(happened, connection) {
  const source = new EventSource("api/v1/events/stream");
  const again = () => {
    source.close();
    connection(false);
    setTimeout(() => listen(happened, connection), AGAIN_AFTER);
  };
  source.onopen = () => connection(true);
  source.onerror = () => {
    connection(false);
    // Refused (too many readers, or it stops): the browser gives up, we do not.
    if (source.readyState === EventSource.CLOSED) again();
  };
  for (const kind of KINDS) {
    source.addEventListener(kind, (event) => happened(kind, JSON.parse(event.data)));
  }
  source.addEventListener("dropped", again);
}
