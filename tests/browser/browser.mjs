// A page in a real browser. Every error that the browser reports in the page fails the test.
import { chromium } from "playwright-core";

// Only a fault waits so long.
export const PATIENCE_MS = 60_000;

export const launch = () => chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-quic"] });

export async function openPage(browser, url, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 1200 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  await page.goto(url);
  return { page, faults, close: () => context.close() };
}

/** Waits until `condition` returns something true, and returns that. */
export async function waitUntil(what, condition) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const found = await condition();
    if (found) return found;
    if (Date.now() > end) throw new Error(`waited in vain until ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Presses the pointer on an element, and releases it at the same place after `meanwhile`. */
export async function pressWhile(page, element, meanwhile) {
  const { x, y, width, height } = await element.boundingBox();
  await page.mouse.move(x + Math.min(width / 2, 80), y + height / 2);
  await page.mouse.down();
  await meanwhile();
  await page.mouse.up();
}
