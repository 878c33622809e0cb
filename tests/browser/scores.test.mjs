// Scores of rules in a real browser: search, set, undo.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, openPage } from "./browser.mjs";
import { Server } from "./server.mjs";

const scratch = join(import.meta.dirname ?? ".", "../../target/browser");
const WIDTHS = { desktop: { viewport: { width: 1280, height: 1000 } }, phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 } };

let server;
let browser;

before(async () => {
  mkdirSync(scratch, { recursive: true });
  server = await Server.start({}, {}, ["rules.paths = []"]);
  // The rules are loaded when the first mail needs them.
  const sent = await server.mail("A mail", "of words");
  assert.equal(sent.status, 0, sent.transcript);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.remove();
});

const open = (options) => openPage(browser, server.origin + "/#rules", options);
const rows = (page) => page.locator("#scores tr");

test("a rule is found by its name, gets another score, and the change is undone", async () => {
  const { page, faults, close } = await open();
  await rows(page).getByRole("button").first().waitFor();
  await page.locator("#score-search").fill("gtube");
  await page.locator("#score-search").press("Enter");
  const score = page.getByRole("spinbutton", { name: "Score of GTUBE" });
  await score.waitFor();
  const before = await score.inputValue();
  assert.ok(await page.locator("#scores-undo").isDisabled());
  await score.fill("0.5");
  await page.getByRole("button", { name: "Set the score of GTUBE" }).click();
  await page.locator("#scores-status", { hasText: "GTUBE scores 0.5 from now on." }).waitFor();
  await page.getByRole("button", { name: "Reset the score of GTUBE" }).waitFor();
  await page.locator("#scores-undo").click();
  await page.locator("#scores-status", { hasText: "before the last change" }).waitFor();
  await page.getByRole("button", { name: "Reset the score of GTUBE" }).waitFor({ state: "detached" });
  assert.equal(await score.inputValue(), before);
  await page.locator("#score-search").fill("no such rule");
  await page.locator("#score-search").press("Enter");
  await page.locator("#scores", { hasText: "No rule matches" }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("the scores as people see them, in light and dark, wide and narrow", async () => {
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, options] of Object.entries(WIDTHS)) {
      const { page, faults, close } = await open({ ...options, colorScheme });
      await rows(page).getByRole("button").first().waitFor();
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${overflow} pixels too wide at ${width} width`);
      await page.locator("#scores-title").scrollIntoViewIfNeeded();
      await page.screenshot({ path: join(scratch, `scores-${width}-${colorScheme}.png`), animations: "disabled" });
      assert.deepEqual(faults, []);
      await close();
    }
  }
});
