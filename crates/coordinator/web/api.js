// The client of the coordinator's API: reads with ETags, writes with the token, errors in the words of their problem documents.

import { ask } from "./dialogs.js";

/** @typedef {import("./schema").components["schemas"]} Schemas */

const TOKEN = "rdmascope-token";

/** What the coordinator refused, or that it does not answer. */
export class ApiError extends Error {
  /** @param {number} status 0 when there was no answer. @param {string} text */
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

/** @type {Map<string, { etag: string, body: unknown }>} */
const known = new Map();

/**
 * `GET path` as JSON. An answer with an ETag is asked for again only when it has changed.
 * @template T
 * @param {string} path
 * @returns {Promise<T>}
 */
export async function read(path) {
  const before = known.get(path);
  const answer = await call(path, { headers: before ? { "If-None-Match": before.etag } : {} });
  if (answer.status === 304 && before) return /** @type {T} */ (before.body);
  const body = await bodyOf(answer);
  const etag = answer.headers.get("ETag");
  if (etag) known.set(path, { etag, body });
  return /** @type {T} */ (body);
}

/**
 * `GET path` as bytes; `null` when nothing has changed since `etag`.
 * @param {string} path
 * @param {string | null} etag
 */
export async function readBytes(path, etag) {
  const answer = await call(path, { headers: etag ? { "If-None-Match": etag } : {} });
  if (answer.status === 304) return null;
  if (!answer.ok) await bodyOf(answer);
  return { bytes: await answer.arrayBuffer(), etag: answer.headers.get("ETag") };
}

/**
 * A call that changes something. Where the coordinator wants its token, the person is asked for it; it stays in this tab's session.
 * @template T
 * @param {"POST" | "PUT" | "DELETE"} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<T>}
 */
export async function write(method, path, body) {
  for (let refused = false; ; refused = true) {
    const token = sessionStorage.getItem(TOKEN);
    /** @type {Record<string, string>} */
    const headers = { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
    const answer = await call(path, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
    if (answer.status !== 401) return /** @type {T} */ (await bodyOf(answer));
    sessionStorage.removeItem(TOKEN);
    const given = await ask({
      title: "The coordinator's token",
      text: refused && token ? "This token was not accepted. The coordinator reads it from the file of --token-file."
        : "This call needs the coordinator's token: what stands in the file of its --token-file. It is kept until this tab is closed.",
      fields: [{ name: "token", label: "Token", type: "password" }],
      confirm: "Use it",
    });
    if (!given?.token) throw new ApiError(401, "Nothing was changed: the coordinator wants its token for this.");
    sessionStorage.setItem(TOKEN, given.token.trim());
  }
}

/** @param {string} path @param {RequestInit} init */
async function call(path, init) {
  try {
    return await fetch(path, { cache: "no-store", credentials: "same-origin", ...init });
  } catch {
    throw new ApiError(0, "no answer; does it still run, and is the way to it open?");
  }
}

/** @param {Response} answer @returns {Promise<unknown>} */
async function bodyOf(answer) {
  const text = await answer.text();
  /** @type {unknown} */
  let body = null;
  try {
    body = text ? JSON.parse(text) : null;
  } catch {
    throw new ApiError(answer.status, `status ${answer.status}, and an answer that is not JSON: is there a proxy in between?`);
  }
  if (answer.ok) return body;
  const problem = /** @type {Partial<Schemas["Problem"]>} */ (body ?? {});
  throw new ApiError(answer.status, problem.detail ?? problem.title ?? `status ${answer.status}`);
}

/** The path of a pair. @param {string} source @param {string} target */
export const pairPath = (source, target) => `api/v1/pairs/${encodeURIComponent(source)}/${encodeURIComponent(target)}`;

/** What an error says to a person. @param {unknown} error */
export const wordsOf = (error) => (error instanceof Error ? error.message : String(error));
