// The charts of figures over time in a real browser: ranges, the values under the cursor, the keyboard, the table.
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
  server = await Server.start({}, {}, [`store.series_interval = "1s"`, `store.series_averages_interval = "1s"`]);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.remove();
});

const open = (path, options) => openPage(browser, server.origin + path, options);
const chart = (page, title) => page.locator("#history-charts > div", { has: page.getByRole("heading", { name: title }) });
const key = (page, title, name) => chart(page, title).locator(`.keys li[data-name="${name}"]`);

/** Waits for a line of a chart. One without height, of values that are all equal, counts as hidden. */
const awaitLine = (page, title) => chart(page, title).locator("path.line").first().waitFor({ state: "attached" });

/** Publishes until this many samples show it. */
async function fillSamples(count) {
  for (;;) {
    await server.publish("hall/door", "open");
    const answer = await (await fetch(`${server.origin}/admin/series?from=5m&points=2000`)).json();
    const one = answer.series.find(({ name }) => name === "messages.http");
    if (one && one.values.filter((value) => value > 0).length >= count) return;
  }
}

test("charts show the values of the moment under the cursor, by pointer and by keyboard", async () => {
  await server.mail("A mail", "with a verdict");
  await fillSamples(3);
  const { page, faults, close } = await open("/");
  await page.locator(`nav a[href="#history"]`).click();
  const traffic = chart(page, "Messages by listener");
  await awaitLine(page, "Messages by listener");
  await page.getByText("5 min", { exact: true }).click();
  await key(page, "Messages by listener", "messages.http").waitFor();
  await page.locator("#history-at", { hasText: "The latest values" }).waitFor();
  assert.ok(await chart(page, "Memory").locator("b", { hasText: /\d+ MB/ }).count(), "memory has a unit");

  // Every chart shows the moment that the pointer is at in one of them.
  await traffic.locator(".plot").hover();
  await page.locator("#history-at", { hasText: "Values of" }).waitFor();
  for (const title of ["Messages by listener", "CPU"]) assert.equal(await chart(page, title).locator(".cursor").getAttribute("visibility"), "visible");
  await page.mouse.move(0, 0);
  await page.locator("#history-at", { hasText: "The latest values" }).waitFor();

  const plot = traffic.getByRole("slider", { name: "Messages by listener, per second" });
  await plot.focus();
  const place = async () => Number(await plot.getAttribute("aria-valuenow"));
  const last = await place();
  await page.keyboard.press("Home");
  assert.equal(await place(), 0);
  await page.keyboard.press("ArrowRight");
  assert.equal(await place(), 1);
  await page.keyboard.press("End");
  assert.equal(await place(), last);
  await page.keyboard.press("ArrowLeft");
  assert.equal(await place(), last - 1);
  assert.match(await plot.getAttribute("aria-valuetext"), /\d\d:\d\d.*: .*http /);
  await page.keyboard.press("Escape");
  assert.equal(await place(), last);

  await page.getByText("Values as a table").click();
  await page.locator("#history-table tbody tr").first().waitFor();
  const heads = await page.locator("#history-table th").allTextContents();
  assert.equal(heads[0], "Time");
  assert.ok(heads.includes("http, per second"), heads.join());
  for (const words of ["1 h", "6 h", "24 h", "7 d", "30 d"]) {
    const answered = page.waitForResponse((answer) => answer.url().includes(`/admin/series?from=${words.replace(" ", "")}&`));
    await page.getByText(words, { exact: true }).click();
    assert.equal((await answered).status(), 200);
    await key(page, "Messages by listener", "messages.http").waitFor();
  }
  assert.deepEqual(faults, []);
  await close();
});

test("a server without figures says so", async () => {
  const other = await Server.start({}, {}, [`store.series_interval = "0s"`]);
  const { page, faults, close } = await openPage(browser, other.origin + "/#history");
  await page.locator("#history-status", { hasText: "There are no figures of this time." }).waitFor();
  assert.ok(await page.locator("#history-charts").isHidden());
  assert.deepEqual(faults, []);
  await close();
  await other.remove();
});

test("the charts as people see them, in light and dark, wide and narrow", async () => {
  await fillSamples(4);
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, options] of Object.entries(WIDTHS)) {
      const { page, faults, close } = await open("/#history", { ...options, colorScheme });
      await page.getByText("5 min", { exact: true }).click();
      await awaitLine(page, "CPU");
      await chart(page, "Verdicts").locator(".plot").hover();
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(overflow <= 0, `${overflow} pixels too wide at ${width} width`);
      await page.screenshot({ path: join(scratch, `history-${width}-${colorScheme}.png`), fullPage: true, animations: "disabled" });
      assert.deepEqual(faults, []);
      await close();
    }
  }
});
