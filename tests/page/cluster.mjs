// A person works with a real cluster that asks for a token: probes, acknowledges, begins a maintenance, starts a sweep.

import assert from "node:assert/strict";
import { answer, open, said, step, until } from "./harness.mjs";

export async function cluster(browser, url, { token, shots, name }) {
  const { page, close } = await open(browser, url, { colorScheme: "dark" });
  const view = (word) => page.locator(`nav a[data-view="${word}"]`).click();

  await step("it says that it is live", () => page.locator("#live", { hasText: "live" }).waitFor());

  await step("the token is asked for, a wrong one is refused, the right one is kept for this tab alone", async () => {
    await view("nodes");
    await page.getByRole("button", { name: "Begin a maintenance …" }).click();
    await answer(page, { nodes: "nobody-*", hours: "1", note: "trial" }, "Begin");
    await answer(page, { token: "0".repeat(64) }, "Use it");
    await page.locator("dialog[open]", { hasText: "was not accepted" }).waitFor();
    await answer(page, { token }, "Use it");
    await page.locator("#said").waitFor();
    const kept = await page.evaluate(() => [Object.values(sessionStorage), Object.values(localStorage), document.cookie]);
    assert.deepEqual(kept, [[token], [], ""]);
  });

  await step("what happens is seen without asking for it", async () => {
    const node = await page.locator("#nodes tbody a").first().textContent();
    await page.getByRole("button", { name: "Begin a maintenance …" }).click();
    await answer(page, { nodes: node, hours: "2", note: "new <i>cable</i>" }, "Begin");
    await page.locator("#maintenance", { hasText: "new <i>cable</i>" }).waitFor();
    await view("now");
    await page.locator("#happened", { hasText: "maintenance" }).waitFor();
    await view("nodes");
    await page.locator("#maintenance tr", { hasText: "new <i>cable</i>" }).getByRole("button", { name: "End it" }).click();
    await said(page, "is over");
  });

  await step("a node shows its checks, readings and events", async () => {
    await page.locator("#nodes tbody a").first().click();
    await page.locator("#node h3", { hasText: "Readings" }).waitFor();
    for (const part of ["Checks that are not fine", "Readings", "Events"]) await page.locator("#node h3", { hasText: part }).waitFor();
    // An agent without RDMA devices has none to tell.
    if (name === "lab") assert.ok(await page.locator("#node details").count(), "no readings");
    else await page.locator("#node", { hasText: "has told none" }).waitFor();
    const finding = page.locator("#node").getByRole("button", { name: "Acknowledge …" });
    if (await finding.count()) {
      await finding.first().click();
      await answer(page, { note: "known" }, "Acknowledge");
      await page.locator("#node", { hasText: "known: known" }).waitFor();
      await page.locator("#node").getByRole("button", { name: "Take back" }).first().click();
      await said(page, "It counts again.");
    }
    if (shots) await page.screenshot({ path: `${shots}/${name}-node.png` });
  });

  await step("a sweep is planned, begins, and shows how far it is until it is done", async () => {
    await view("sweeps");
    await page.locator('#start [name="drained"]').check();
    await page.getByRole("button", { name: "What would it cost?" }).click();
    await page.locator("#plan", { hasText: "pairs of" }).waitFor();
    await page.getByRole("button", { name: "Start", exact: true }).click();
    await said(page, "begins");
    await page.locator("#sweeps article progress").first().waitFor();
    await page.locator("#sweeps article h3", { hasText: "requested" }).filter({ hasText: "done" }).first().waitFor();
    if (shots) await page.screenshot({ path: `${shots}/${name}-sweeps.png` });
  });

  await step("a pair is probed now, and its steps are shown as they come", async () => {
    await view("now");
    await page.locator('#controls select[name="layer"]').selectOption("latency");
    await page.locator("#worst tbody button").first().waitFor();
    await page.locator("#worst tbody button").first().click();
    await page.getByRole("button", { name: "Probe now …" }).click();
    await answer(page, { metric: "latency" }, "Probe");
    await until(page, () => document.querySelectorAll("#pair-body .steps li").length >= 3);
    await said(page, /Probe \d+: done/);
    assert.match(await page.locator("#pair-body").textContent(), /there →/);
    await page.locator("#matrix").scrollIntoViewIfNeeded();
    if (shots) await page.screenshot({ path: `${shots}/${name}-pair.png` });
  });

  await step("the history of a pair is a chart and a table, with gaps where nothing was measured", async () => {
    const at = (minute) => `2026-01-01T00:0${minute}:00Z`;
    const points = [{ at: at(0), state: "fresh", p50: 2000, p99: 9000, sent: 10, lost: 0 }, { at: at(1), state: "failed" },
      { at: at(2), state: "fresh", p50: 2500, sent: 10, lost: 1 }, { at: at(3), state: "fresh", p50: 2600 }];
    await page.route("**/api/v1/history?**", (route) => route.fulfill({ json: { source: "a", target: "b", metric: "latency", unit: "ns", points } }));
    await page.getByRole("button", { name: "Other direction" }).click();
    const chart = page.locator("#pair-body svg");
    // The chart of the pair that was open before stays until the answer is there.
    await until(page, () => document.querySelector("#pair-body svg .failed")?.getAttribute("d"));
    const medians = await chart.locator(".p50").getAttribute("d");
    assert.equal(medians.match(/M/g).length, 2, `a line over the failed probe: ${medians}`);
    assert.equal((await chart.locator(".failed").getAttribute("d")).match(/M/g).length, 1);
    await page.locator("#pair-body summary", { hasText: "As a table" }).click();
    const rows = await page.locator("#pair-body details tbody tr").allTextContents();
    assert.deepEqual(rows.slice(1, 3), ["2026-01-01 00:02:00 UTCfresh2.50 µs–10.0 %", "2026-01-01 00:01:00 UTCfailed–––"]);
    await page.unroute("**/api/v1/history?**");
  });

  await step("pause asks for no second token", async () => {
    await view("sweeps");
    await page.getByRole("button", { name: "Pause bandwidth only" }).click();
    await page.locator("#banners", { hasText: "bandwidth probes" }).waitFor();
    await page.locator("#pause").getByRole("button", { name: "Resume" }).click();
    await page.locator("#pause", { hasText: "Nothing is paused." }).waitFor();
  });
  await close();
}

/** A coordinator that anybody can reach: every part of the page says so. */
export async function insecure(browser, url) {
  const { page, close } = await open(browser, url);
  await step("an insecure coordinator says so on every part", async () => {
    for (const view of ["now", "nodes", "sweeps"]) {
      await page.goto(`${url}#view=${view}`);
      await page.locator(`#view-${view}`).waitFor();
      await page.locator("#banners", { hasText: "Insecure" }).waitFor();
    }
    await page.goto(`${url}#view=now`);
    await page.locator("#incidents", { hasText: "no endpoint has registered" }).waitFor();
    await page.locator("#numbers", { hasText: "rdmascope agent --coordinator" }).waitFor();
  });
  await close();
}
