// The dashboard and a user's live page in a real browser: what arrives shows without a reload.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { Server } from "./server.mjs";

const GTUBE = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
const root = join(import.meta.dirname ?? ".", "../..");
const pictures = join(root, process.env.UPDATE_SCREENSHOTS ? "docs/images" : "target/browser");
// Only a fault waits so long.
const PATIENCE_MS = 20_000;

let server;
let browser;

before(async () => {
  mkdirSync(pictures, { recursive: true });
  server = await Server.start({
    "hall.html": `<!doctype html><html lang="en"><title>Hall</title><body><h1>Hall</h1><p id="value">{{ live("hall/temperature") }}</p></body></html>`,
  });
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-quic"] });
});

after(async () => {
  await browser?.close();
  await server?.remove();
});

/** A page that fails the test for every fault that the browser sees in it. */
async function open(path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 1200 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  await page.goto(server.origin + path);
  return { page, faults, close: () => context.close() };
}

const row = (page, text) => page.locator(".messages details", { hasText: text });

test("mail shows on the dashboard without a reload, with its verdict and why", async () => {
  const { page, faults, close } = await open("/");
  await page.locator("#link", { hasText: "Live" }).waitFor();
  await page.evaluate(() => (window.mark = "not reloaded"));

  const good = await server.mail("Backup of files finished", "All is well.");
  assert.equal(good.status, 0, good.transcript);
  await row(page, "Backup of files finished").locator(".badge.accept, .badge.tag").waitFor();

  const spam = await server.mail("Offer", GTUBE);
  assert.match(spam.transcript, /<\*\* 5\d\d/, spam.transcript);
  const rejected = row(page, "Offer");
  await rejected.locator(".badge.reject").waitFor();
  await rejected.locator("summary").press("Enter");
  await rejected.locator(".story .mono", { hasText: "GTUBE" }).first().waitFor();

  await page.locator("#search").fill("files finished");
  await rejected.waitFor({ state: "hidden" });
  await page.locator("#search").fill("");
  await page.locator("#verdict").selectOption("reject");
  await row(page, "Backup of files finished").waitFor({ state: "hidden" });
  await page.locator("#verdict").selectOption("");

  await page.locator("#listeners", { hasText: server.binds.smtp }).waitFor();
  await page.locator("#topics", { hasText: "alarms/fire" }).waitFor();
  assert.equal(await page.evaluate(() => window.mark), "not reloaded");
  assert.deepEqual(faults, []);
  await close();
});

test("what a message holds never becomes markup", async () => {
  const { page, faults, close } = await open("/");
  await page.locator("#link", { hasText: "Live" }).waitFor();
  await server.mail("<img src=x onerror=window.broken=1>", "text");
  const hostile = row(page, "<img src=x onerror=window.broken=1>").first();
  await hostile.waitFor();
  assert.equal(await page.locator(".messages img").count(), 0);
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.deepEqual(faults, []);
  await close();
});

test("a quarantined message is looked at, learned and released from the dashboard", async () => {
  const spam = await server.mail("Kept <i>aside</i>", GTUBE, "kept+offer@localhost");
  assert.equal(spam.status, 0, spam.transcript);
  const { page, faults, close } = await open("/");
  const kept = page.locator("#quarantine-list details", { hasText: "Kept <i>aside</i>" });
  await kept.locator("summary").click();
  await kept.getByRole("button", { name: "Show text" }).click();
  await kept.locator("pre", { hasText: "GTUBE" }).waitFor();
  assert.equal(await page.locator("#quarantine i, #quarantine img").count(), 0);
  await kept.getByRole("button", { name: "Learn as ham" }).click();
  await page.locator("#quarantine-said", { hasText: "Learned: ham." }).waitFor();
  await page.screenshot({ path: join(pictures, "quarantine.png"), fullPage: true, animations: "disabled" });
  const reader = await fetch(`${server.origin}/topics/kept/offer`, { headers: { accept: "application/x-ndjson" } });
  await kept.getByRole("button", { name: "Release" }).click();
  await page.locator("#quarantine-said", { hasText: "Released to 1 subscriber." }).waitFor();
  await kept.waitFor({ state: "detached" });
  const { value } = await reader.body.getReader().read();
  assert.match(new TextDecoder().decode(value), /Kept <i>aside<\/i>/);
  assert.deepEqual(faults, []);
  await close();
});

test("axe finds nothing serious, in light and dark, with everything open", async () => {
  await server.mail("Kept for axe", GTUBE, "kept+offer@localhost");
  for (const colorScheme of ["light", "dark"]) {
    const { page, close } = await open("/", { colorScheme, bypassCSP: true });
    const kept = page.locator("#quarantine-list details").first();
    await kept.locator("summary").click();
    await kept.getByRole("button", { name: "Show source" }).click();
    await kept.locator("pre:not([hidden])").waitFor();
    await page.addScriptTag({ path: createRequire(import.meta.url).resolve("axe-core/axe.min.js") });
    const { violations } = await page.evaluate(() => window.axe.run());
    const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
    assert.deepEqual(serious.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), [], colorScheme);
    await close();
  }
});

test("a live value moves without a reload, and goes on after the server was away", async () => {
  await server.publish("hall/temperature", "19.5 °C");
  const { page, close } = await open("/hall");
  const value = page.locator("#value");
  assert.equal(await value.textContent(), "19.5 °C");
  await page.evaluate(() => (window.mark = "not reloaded"));
  await server.publish("hall/temperature", "20.1 <b>°C</b>");
  await value.filter({ hasText: "20.1 <b>°C</b>" }).waitFor();

  await server.stop();
  await server.run();
  await server.publish("hall/temperature", "21.7 °C");
  await value.filter({ hasText: "21.7 °C" }).waitFor();
  assert.equal(await page.evaluate(() => window.mark), "not reloaded");
  await close();
});

test("a live page shows its value without JavaScript", async () => {
  await server.publish("hall/temperature", "18.0 °C");
  const { page, close } = await open("/hall", { javaScriptEnabled: false });
  assert.equal(await page.locator("#value").textContent(), "18.0 °C");
  await close();
});

test("pictures at desktop and phone width, light and dark", async () => {
  for (let count = 0; count < 60; count += 1) {
    await server.publish(["sensors/hall", "sensors/yard", "ups/rack-2/load"][count % 3], `${count}`);
  }
  for (const [subject, body] of [
    ["UPS rack-2: on battery, 38 minutes left", "Load 41 %."],
    ["You have WON a prize", GTUBE],
    ["Camera 3: motion in the yard", "See the attached picture."],
    ["Backup of files finished, 212 GB", "All is well."],
  ]) await server.mail(subject, body);
  for (const [name, options] of [
    ["dashboard", { viewport: { width: 1280, height: 1200 } }],
    ["dashboard-dark", { viewport: { width: 1280, height: 1200 }, colorScheme: "dark" }],
    ["dashboard-phone", { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 }],
  ]) {
    const { page, faults, close } = await open("/", options);
    await page.locator("#link", { hasText: "Live" }).waitFor();
    await row(page, "UPS rack-2").first().waitFor();
    if (name !== "dashboard-phone") {
      const rejected = row(page, "You have WON a prize").first();
      await rejected.locator("summary").click();
      await rejected.locator(".story").waitFor();
    }
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${name} is ${overflow} pixels too wide`);
    await page.screenshot({ path: join(pictures, `${name}.png`), animations: "disabled" });
    assert.deepEqual(faults, []);
    await close();
  }
});
