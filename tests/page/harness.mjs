// Starts the browser, watches what a page asks for and complains of, and prints what was measured.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { gzipSync } from "node:zlib";

const require = createRequire(`${process.env.PAGE_TOOLS}/`);
const { chromium } = require("playwright-core");

/** Far more than anything here takes; only what would hang sees its end. */
export const PATIENCE = 120_000;
// A machine without a graphics card, and no word to anybody outside.
const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM, args: ARGUMENTS });

const rows = [];

/** One row of what was measured; it holds unless a limit says otherwise. */
export function row(what, seen, unit, asked = "", holds = true) {
  rows.push(holds);
  const shown = { what, seen, unit, asked, holds, against: null, seen_against: null };
  console.log(process.env.PAGE_JSON ? JSON.stringify(shown) : `${what.padEnd(70)} ${String(seen).padStart(10)} ${unit.padEnd(4)} ${asked}${holds ? "" : "  DOES NOT HOLD"}`);
}

export const allHold = () => rows.every(Boolean);

/** Does a step and says its name where it fails. */
export async function step(name, work) {
  try {
    await work();
    console.error(`  ok: ${name}`);
  } catch (error) {
    error.message = `${name}: ${error.message}`;
    throw error;
  }
}

/** A page of this coordinator, in a context of its own, that notes what it should not do. */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1500, height: 1100 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const own = new URL(url).origin, wrong = [], files = new Map(), pending = [];
  page.on("request", (request) => { if (new URL(request.url()).origin !== own) wrong.push(`asks ${request.url()}`); });
  page.on("pageerror", (error) => wrong.push(`throws ${error}`));
  page.on("console", (message) => {
    const at = message.location().url ?? "";
    // The browser itself complains of every answer that is no success: a pair without a history, and a call without the token.
    const expected = /status of 404/.test(message.text()) && at.includes("/api/v1/history") || /status of 401/.test(message.text());
    if (["error", "warning"].includes(message.type()) && !expected) wrong.push(`complains ${message.text()} (${at})`);
  });
  page.on("response", (response) => {
    const { pathname } = new URL(response.url());
    if (response.ok() && (pathname === "/" || pathname.startsWith("/web/"))) {
      pending.push(response.body().then((body) => files.set(pathname, body)));
    }
  });
  await page.goto(url);
  const close = async () => {
    await Promise.all(pending);
    await context.close();
    assert.deepEqual(wrong, [], "the page stays at home and complains of nothing");
  };
  return { page, close, files, settled: () => Promise.all(pending) };
}

/** Bytes of all files of the page, as they are and as a proxy would send them. */
export function sizes(files) {
  const all = [...files.values()];
  return { raw: all.reduce((sum, body) => sum + body.length, 0), gzip: all.reduce((sum, body) => sum + gzipSync(body, { level: 9 }).length, 0) };
}

/** Answers a question of the page's dialog. */
export async function answer(page, values, confirm) {
  const dialog = page.locator("dialog[open]");
  await dialog.waitFor();
  for (const [name, value] of Object.entries(values)) {
    const field = dialog.locator(`[name="${name}"]`);
    if (await field.evaluate((element) => element.tagName === "SELECT")) await field.selectOption(value);
    else await field.fill(value);
  }
  await dialog.getByRole("button", { name: confirm, exact: true }).click();
}

/** What the page says in its corner. */
export const said = (page, words) => page.locator("#said", { hasText: words }).waitFor();

/** Waits until something in the page is so. */
export const until = (page, look, argument) => page.waitForFunction(look, argument, { timeout: PATIENCE });
