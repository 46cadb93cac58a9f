// A person looks at a large simulated cluster in which one endpoint answers nobody: the map, by pointer and by keys.

import assert from "node:assert/strict";
import { answer, open, row, said, sizes, step, until } from "./harness.mjs";

/** Milliseconds of panning over which frames are counted. */
const PAN = 4_000;
const BYTES_MAX = 200_000;

const under = (page) => page.locator("#under").textContent();
const option = (page) => (name, value) => page.locator(`#controls select[name="${name}"]`).selectOption(value);

/** A picture of what is drawn, to tell whether it has changed. */
/** What the map looks like, unless that is as before; small, for encoding all of its points at every look would keep the page from drawing. */
function look(before) {
  const small = new OffscreenCanvas(150, 110).getContext("2d");
  small.drawImage(document.querySelector("#matrix"), 0, 0, 150, 110);
  const now = small.getImageData(0, 0, 150, 110).data.join();
  return now !== before && now;
}

async function changes(page, what, act) {
  const before = await page.evaluate(look);
  await act();
  await until(page, look, before)
    .catch(() => assert.fail(`the map looks the same after ${what}`));
}

export async function simulated(browser, url, { endpoints, shots, short }) {
  const { page, close, files, settled } = await open(browser, url, { colorScheme: "light" });
  const choose = option(page), map = page.locator("#matrix");

  await step("incidents come first, with who, since when and what to do", async () => {
    const incident = page.locator("#incidents article").first();
    await incident.waitFor();
    const text = await incident.textContent();
    for (const word of ["Who", "Since", "Seen", "How sure"]) assert.ok(text.includes(word), `no ${word} in ${text}`);
    assert.ok(await incident.locator(".next").first().textContent());
    const order = await page.evaluate(() => document.querySelector("#incidents").compareDocumentPosition(document.querySelector("#matrix")));
    assert.ok(order & 4, "the map stands before the incidents");
  });

  await step("the whole matrix is there", async () => {
    await page.locator("#numbers", { hasText: `${endpoints.toLocaleString("en")} endpoints` }).waitFor();
    assert.match(await page.locator("#numbers").textContent(), /failed/);
    assert.match(await page.locator("#legend").textContent(), /good .* bad/s);
  });

  await step("the policy holds: no markup from text, no script from elsewhere", async () => {
    const policy = (await page.request.get(url)).headers()["content-security-policy"];
    assert.match(policy, /^default-src 'none';/);
    assert.doesNotMatch(policy, /unsafe|https?:|\*/, "something from elsewhere may run");
    // The browser complains of the attempt, so it is made in a page that nobody watches.
    const other = await browser.newPage();
    await other.goto(url);
    const refused = await other.evaluate(() => { try { document.createElement("p").innerHTML = "<b>"; return false; } catch { return true; } });
    await other.close();
    assert.ok(refused, "a text could become markup");
  });

  await step("keys: the cursor moves, is read aloud, and opens the pair", async () => {
    await map.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    const one = await under(page);
    await page.keyboard.press("ArrowRight");
    const two = await under(page);
    assert.notEqual(one, two);
    await page.keyboard.press("PageDown");
    const words = await under(page);
    assert.match(words, / → .*: .*; back: /);
    await page.keyboard.press("Enter");
    const ends = words.split(":")[0].split(" → ");
    await page.locator("#pair-body code").nth(1).waitFor();
    assert.deepEqual(await page.locator("#pair-body code").allTextContents().then((texts) => texts.slice(0, 2)), ends);
    const text = await page.locator("#pair-body").textContent();
    for (const part of ["there →", "← back", "Pings", "Latency over connections", "Bandwidth", "History", "says of itself", "Last probe"]) {
      assert.ok(text.includes(part), `no ${part} in the panel`);
    }
    assert.match(await page.evaluate(() => location.hash), /source=.*target=/);
  });

  await step("what has the focus is seen", async () => {
    const outline = await map.evaluate((canvas) => getComputedStyle(canvas).outlineStyle);
    assert.equal(outline, "solid");
    await page.locator(".skip").focus();
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  });

  await step("metric, direction, rail and order change the map", async () => {
    const title = () => page.locator("#numbers").textContent();
    await choose("layer", "latency");
    await page.locator("#numbers", { hasText: "Latency, median" }).waitFor();
    await choose("layer", "bandwidth");
    await page.locator("#numbers", { hasText: "Bandwidth" }).waitFor();
    await choose("layer", "loss");
    await page.locator("#numbers", { hasText: "share lost" }).waitFor();
    await choose("layer", "ping");
    await page.locator("#numbers", { hasText: "round trip" }).waitFor();
    await changes(page, "another direction", () => choose("direction", "back"));
    await choose("direction", "there");
    await changes(page, "order by rail", () => choose("order", "rail"));
    await changes(page, "order by leaf", () => choose("order", "leaf"));
    await changes(page, "worst first", () => choose("order", "worst"));
    const rails = await page.locator('#controls select[name="rail"] option').allTextContents();
    assert.ok(rails.length > 2, `rails: ${rails}`);
    await choose("rail", { index: 1 });
    await until(page, (all) => !document.querySelector("#numbers").textContent.includes(all), `${endpoints.toLocaleString("en")} endpoints`);
    const few = await title();
    await choose("rail", { index: 0 });
    await page.locator("#numbers", { hasText: `${endpoints.toLocaleString("en")} endpoints` }).waitFor();
    assert.notEqual(few, await title());
  });

  await step("worst first puts the silent endpoint into the corner", async () => {
    await map.focus();
    await page.keyboard.press("0");
    await page.keyboard.press("Home");
    for (let row = 0; row < 3; row++) await page.keyboard.press("ArrowUp");
    for (let rows = 0; rows < endpoints; rows += 10) await page.keyboard.press("PageUp");
    // Its neighbours may be of its own node, which are not probed.
    const words = [];
    for (let column = 0; column < 16; column++) {
      await page.keyboard.press("ArrowRight");
      words.push(await under(page));
    }
    assert.ok(words.some((text) => text.includes(": failed")), words.join("; "));
    await choose("order", "node");
  });

  await step("the wheel zooms, drags move, a click opens", async () => {
    const box = await map.boundingBox(), middle = [box.x + box.width / 2, box.y + box.height / 2];
    await page.mouse.move(...middle);
    await page.locator("#tip", { hasText: "→" }).waitFor();
    await map.focus();
    // As often as it still enlarges: a turn makes it 1.8 times as large, and a cell ends at 72 points.
    const turns = Math.floor(Math.log(endpoints / 13) / 0.6);
    for (let turn = 0; turn < turns; turn++) await changes(page, "the wheel", () => page.mouse.wheel(0, -240));
    await changes(page, "a drag", async () => {
      await page.mouse.down();
      await page.mouse.move(middle[0] - 150, middle[1] - 90, { steps: 8 });
      await page.mouse.up();
    });
    const tip = await page.locator("#tip").textContent();
    await page.mouse.click(middle[0] - 150, middle[1] - 90);
    await page.locator("#pair-body code", { hasText: tip.split(" → ")[0] }).first().waitFor();
    if (shots) await page.screenshot({ path: `${shots}/zoomed.png` });
    await page.getByRole("button", { name: "All", exact: true }).click();
  });

  await step("the table of the worst pairs says the same in words", async () => {
    const worst = page.locator("#worst tbody tr").first();
    assert.match(await worst.textContent(), /failed/);
    await until(page, () => document.querySelector("#worst tbody tr td:last-child").textContent.length > 20);
    await worst.getByRole("button").click();
    const name = await worst.getByRole("button").textContent();
    await page.locator("#pair-body code", { hasText: name }).first().waitFor();
    await page.locator("#pair-body .trouble").first().waitFor();
    const csv = await page.request.get(new URL(await page.locator("#controls a").getAttribute("href"), url).href);
    assert.ok(csv.ok() && (await csv.text()).split("\n").length > endpoints);
  });

  if (shots) await pictures(page, shots);
  await acknowledges(page);
  await pauses(page);
  await frames(page, map, endpoints, short);

  await step("all of it is light", async () => {
    await settled();
    const { raw, gzip } = sizes(files);
    row("files of the page as they are", raw, "B");
    row("files of the page, compressed", gzip, "B", `< ${BYTES_MAX}`, gzip < BYTES_MAX);
    assert.ok(files.size >= 10, `${[...files.keys()]}`);
  });
  await close();
}

async function pictures(page, shots) {
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: `${shots}/light.png` });
  await page.emulateMedia({ colorScheme: "dark" });
  await changes(page, "the dark colours", async () => {}).catch(() => {});
  await page.waitForTimeout(300);
  await page.screenshot({ path: `${shots}/dark.png` });
  await page.screenshot({ path: `${shots}/dark-full.png`, fullPage: true });
  await page.emulateMedia({ colorScheme: "light" });
}

async function acknowledges(page) {
  await step("an incident is acknowledged, with a note, and the note can be taken back", async () => {
    const incident = page.locator("#incidents article").first(), id = await incident.getAttribute("data-incident");
    const same = page.locator(`#incidents article[data-incident="${id}"]`);
    await same.getByRole("button", { name: "Acknowledge …" }).click();
    await answer(page, { note: "<b>cable</b> is on its way" }, "Acknowledge");
    await said(page, "Acknowledged.");
    await same.locator("td", { hasText: "<b>cable</b> is on its way" }).waitFor();
    await same.getByRole("button", { name: "Take the acknowledgement back" }).click();
    await same.getByRole("button", { name: "Acknowledge …" }).waitFor();
  });
}

async function pauses(page) {
  await step("probing is paused and resumed, and every view says so", async () => {
    await page.locator('nav a[data-view="sweeps"]').click();
    await page.getByRole("button", { name: "Pause every probe" }).click();
    const banner = page.locator("#banners", { hasText: "Paused on the whole cluster: every probe" });
    await banner.waitFor();
    for (const view of ["nodes", "now", "sweeps"]) {
      await page.locator(`nav a[data-view="${view}"]`).click();
      await page.locator(`#view-${view}`).waitFor();
      assert.ok(await banner.isVisible(), view);
    }
    await page.locator("#pause").getByRole("button", { name: "Resume" }).click();
    await page.locator("#pause", { hasText: "Nothing is paused." }).waitFor();
    await page.locator('nav a[data-view="now"]').click();
  });
}

/** Pans over the enlarged map as a hand does, and counts what the browser draws meanwhile. */
async function frames(page, map, endpoints, short) {
  await step("frames while the map is dragged", async () => {
    await map.scrollIntoViewIfNeeded();
    const box = await map.boundingBox(), [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    await map.focus();
    for (let turn = 0; turn < 4; turn++) await page.keyboard.press("+");
    await page.evaluate(() => {
      globalThis.frames = [];
      let before = performance.now();
      const note = (now) => { globalThis.frames.push(now - before); before = now; globalThis.noting = requestAnimationFrame(note); };
      globalThis.noting = requestAnimationFrame(note);
    });
    await page.mouse.move(x, y);
    await page.mouse.down();
    const began = Date.now(), span = short ? PAN / 4 : PAN;
    for (let turn = 0; Date.now() - began < span; turn++) {
      await page.mouse.move(x + 220 * Math.sin(turn / 9), y + 160 * Math.cos(turn / 7));
    }
    await page.mouse.up();
    const times = await page.evaluate(() => { cancelAnimationFrame(globalThis.noting); return globalThis.frames.slice(2).sort((a, b) => a - b); });
    assert.ok(times.length > 5, "nothing was drawn");
    const ms = (time) => Math.round(time * 10) / 10;
    row(`frame time over a drag at ${endpoints} endpoints, median`, ms(times[times.length >> 1]), "ms");
    row(`frame time over a drag at ${endpoints} endpoints, worst`, ms(times[times.length - 1]), "ms");
    row(`frames over a drag at ${endpoints} endpoints`, times.length, "");
  });
}
