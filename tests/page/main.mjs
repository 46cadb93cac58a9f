// Drives the page as a person does; `cargo xtask page` starts the coordinators and says where they are.

import { readFileSync } from "node:fs";
import { cluster, insecure } from "./cluster.mjs";
import { allHold, launch } from "./harness.mjs";
import { simulated } from "./simulated.mjs";

const { PAGE_SIMULATED, PAGE_ENDPOINTS, PAGE_CLUSTER, PAGE_CLUSTER_NAME, PAGE_TOKEN_FILE, PAGE_INSECURE, PAGE_SHOTS, PAGE_SHORT } = process.env;

const browser = await launch();
try {
  await simulated(browser, PAGE_SIMULATED, { endpoints: Number(PAGE_ENDPOINTS), shots: PAGE_SHOTS, short: Boolean(PAGE_SHORT) });
  await cluster(browser, PAGE_CLUSTER, { token: readFileSync(PAGE_TOKEN_FILE, "utf8").trim(), shots: PAGE_SHOTS, name: PAGE_CLUSTER_NAME });
  await insecure(browser, PAGE_INSECURE);
} finally {
  await browser.close();
}
process.exitCode = allHold() ? 0 : 1;
