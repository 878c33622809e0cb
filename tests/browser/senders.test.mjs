// A user allows and blocks senders for their own mailbox, with their own login, in a real browser.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, openPage, waitUntil } from "./browser.mjs";
import { Server } from "./server.mjs";

const scratch = join(import.meta.dirname ?? ".", "../../target/browser");
const WIDTHS = { desktop: { viewport: { width: 1280, height: 800 } }, phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 } };

let server;
let browser;

before(async () => {
  mkdirSync(scratch, { recursive: true });
  server = await Server.start({});
  for (const [name, ...more] of [["root", "--admin"], ["anna"]]) {
    const added = spawnSync(process.env.GATEPOST, ["user", "add", name, ...more, "--config", server.config], { input: "secret" });
    assert.equal(added.status, 0, added.stderr.toString());
  }
  const authorization = "Basic " + Buffer.from("anna:secret").toString("base64");
  await waitUntil("the server knows the users", async () => (await fetch(server.origin + "/v1/senders", { headers: { authorization } })).status === 200);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.remove();
});

/** The page, to which the login page leads back. */
async function open(options) {
  const opened = await openPage(browser, server.origin + "/senders", options);
  await opened.page.getByLabel("User", { exact: true }).fill("anna");
  await opened.page.getByLabel("Password or token").fill("secret");
  await opened.page.getByRole("button", { name: "Log in" }).click();
  await opened.page.waitForURL("**/senders");
  return opened;
}

test("a user changes the own list", async () => {
  const { page, faults, close } = await open();
  await page.locator("#user", { hasText: "anna" }).waitFor();
  await page.locator("#entries", { hasText: "None yet" }).waitFor();
  await page.locator("#entry").fill("otto@example.org");
  await page.getByRole("button", { name: "Allow" }).click();
  await page.locator("#status", { hasText: "Mail of otto@example.org is accepted from now on." }).waitFor();
  await page.locator("#entry").fill("example.net");
  await page.getByRole("button", { name: "Block" }).click();
  await page.locator("#entries tr", { hasText: "*@example.net" }).filter({ hasText: "quarantined" }).waitFor();
  assert.deepEqual(faults, []);

  await page.locator("#entry").fill("a b");
  await page.getByRole("button", { name: "Block" }).click();
  await page.locator("#status.wrong", { hasText: "write an address" }).waitFor();
  await page.reload();
  const entries = page.locator("#entries tr").filter({ has: page.getByRole("button") });
  await entries.nth(1).waitFor();
  assert.equal(await entries.count(), 2);
  await page.getByRole("button", { name: "Remove otto@example.org" }).click();
  await page.locator("#entries tr", { hasText: "otto@example.org" }).waitFor({ state: "detached" });
  await close();
});

test("the page as people see it, in light and dark, wide and narrow, and axe finds nothing", async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, options] of Object.entries(WIDTHS)) {
      const { page, faults, close } = await open({ ...options, colorScheme, bypassCSP: true });
      await page.locator("#entries tr", { hasText: "*@example.net" }).waitFor();
      await page.addScriptTag({ path: createRequire(import.meta.url).resolve("axe-core/axe.min.js") });
      const { violations } = await page.evaluate(() => window.axe.run());
      assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), []);
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${overflow} pixels too wide at ${width} width`);
      await page.screenshot({ path: join(scratch, `senders-${width}-${colorScheme}.png`), animations: "disabled" });
      assert.deepEqual(faults, []);
      await close();
    }
  }
});
