// The console's own tools in a real browser: topics as a tree, publishing, scanning a mail, and the
// list of many users.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import mqtt from "mqtt";
import { openPage } from "./browser.mjs";
import { GTUBE, browser, scratch, server } from "./served.mjs";

const open = (path, options) => openPage(browser, server.origin + path, options);
// Only a fault waits so long.
const PATIENCE_MS = 20_000;

const level = (page, name) => page.locator(`#topic-tree li[data-name="${name}"] > details > summary`);

test("topics are a tree that follows what is published, and one publishes into it", async () => {
  await server.publish("hall/temperature?retain=1", "20.5");
  await server.publish("hall/<img src=x onerror=window.broken=1>", "<img src=x onerror=window.broken=1>");
  const { page, faults, close } = await open("/#explorer");
  page.on("dialog", (dialog) => dialog.accept());
  await level(page, "hall").click();
  await level(page, "temperature").filter({ hasText: "20.5" }).filter({ hasText: "retained" }).waitFor();
  assert.equal(await page.locator("#topic-tree img").count(), 0);
  // A replayed message is no part of a rate; later ones are.
  assert.doesNotMatch(await level(page, "temperature").textContent(), /a second/);
  const from = Date.now();
  for (let count = 0; !/a second/.test(await level(page, "temperature").textContent()); count += 1) {
    assert.ok(Date.now() - from < PATIENCE_MS, "no rate is shown");
    await server.publish("hall/temperature?retain=1", "20.5");
  }

  await page.locator("#publish-topic").fill("hall/door");
  await page.locator("#publish-payload").fill("open");
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.locator("#topics-status", { hasText: "Published to hall/door: accept" }).waitFor();
  await level(page, "door").filter({ hasText: "open" }).waitFor();
  await server.publish("hall/door", "shut");
  await level(page, "door").filter({ hasText: "shut" }).waitFor();
  // Levels are sorted, whenever they came.
  const names = await page.locator('#topic-tree li[data-name="hall"] > details > ul > li').evaluateAll((rows) => rows.map((row) => row.dataset.name));
  assert.deepEqual(names.slice(-2), ["door", "temperature"]);
  await level(page, "door").click();
  const history = page.locator('li[data-name="door"] .topic-detail td .payload');
  await history.nth(1).waitFor();
  assert.deepEqual(await history.allTextContents(), ["shut", "open"], "newest first");

  await level(page, "temperature").click();
  await page.getByRole("button", { name: "Clear retained" }).click();
  await page.locator("#topics-status", { hasText: "has no retained message any more" }).waitFor();
  await page.locator("#publish-topic").fill("hall/../door");
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.locator("#topics-status.wrong").waitFor();

  await page.locator("#watch-filter").fill("hall/door");
  await page.locator("#watch-filter").press("Enter");
  await level(page, "temperature").waitFor({ state: "detached" });
  await level(page, "hall").click();
  await level(page, "door").filter({ hasText: "shut" }).waitFor();
  await page.screenshot({ path: join(scratch, "topics.png"), animations: "disabled" });
  assert.equal(await page.evaluate(() => window.broken), undefined);
  assert.deepEqual(faults, []);
  await close();
});

test("a topic shows who subscribes to it, and leads to the client", async () => {
  const reader = await mqtt.connectAsync(`mqtt://${server.binds.mqtt}`, { clientId: "hall <b>display</b>", protocolVersion: 5, reconnectPeriod: 0 });
  await reader.subscribeAsync(["hall/+", "attic/#"]);
  await server.publish("hall/lamp?retain=1", "on");
  for (const [name, options] of [["wide", {}], ["tablet-dark", { viewport: { width: 768, height: 1024 }, colorScheme: "dark" }], ["phone", { viewport: { width: 390, height: 844 } }]]) {
    const { page, faults, close } = await open("/#explorer", options);
    await level(page, "hall").click();
    await level(page, "lamp").click();
    const subscribers = page.locator('li[data-name="lamp"] .subscribers');
    await subscribers.locator("td", { hasText: "hall/+" }).waitFor();
    assert.doesNotMatch(await subscribers.textContent(), /attic/);
    // The page itself watches the topics.
    await subscribers.getByText("and 1 event stream or sink").waitFor();
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), name);
    await page.screenshot({ path: join(scratch, `subscribers-${name}.png`), animations: "disabled" });
    await subscribers.getByRole("link", { name: "hall <b>display</b>" }).click();
    await page.locator("#view-access").waitFor();
    await page.locator("#view-access", { hasText: "hall <b>display</b>" }).waitFor();
    assert.deepEqual(faults, []);
    await close();
  }
  await reader.endAsync();
});

test("a click on a topic counts though its line is redrawn between press and release", async () => {
  await server.publish("busy/line?retain=1", "before");
  const { page, faults, close } = await open("/#explorer");
  const value = level(page, "busy").locator(".quiet");
  await value.filter({ hasText: "1 topic below" }).waitFor();
  const { x, y, width, height } = await value.boundingBox();
  await page.mouse.move(x + width / 4, y + height / 2);
  await page.mouse.down();
  await server.publish("busy/other", "new");
  await value.filter({ hasText: "2 topics below" }).waitFor();
  await page.mouse.up();
  await level(page, "line").filter({ hasText: "before" }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("a pasted mail is scanned, explained and learned, and goes nowhere", async () => {
  const { page, faults, close } = await open("/#rules");
  await page.locator("#scan-text").fill(`From: a@example.org\nSubject: <b>Offer</b>\n\n${GTUBE}\n`);
  await page.getByRole("button", { name: "Scan", exact: true }).click();
  await page.locator("#scan-result .badge.reject").waitFor();
  await page.locator("#scan-result tr", { hasText: "GTUBE" }).locator("td", { hasText: "Generic Test for Unsolicited Bulk Email" }).waitFor();
  const file = { name: "fine.eml", mimeType: "message/rfc822", buffer: Buffer.from("From: a@example.org\r\nTo: b@example.org\r\nSubject: Fine\r\n\r\nHello.\r\n") };
  await page.locator("#scan-file").setInputFiles(file);
  await page.getByRole("button", { name: "Scan", exact: true }).click();
  await page.locator("#scan-result .badge.accept, #scan-result .badge.tag").waitFor();
  const { messages } = await (await fetch(server.origin + "/admin/messages")).json();
  assert.deepEqual(messages, []);
  await page.getByRole("button", { name: "Learn as ham" }).click();
  await page.locator("#scan-status", { hasText: "Learned: ham." }).waitFor();
  await page.locator("#bayes", { hasText: "Bayes has learned 0 spam and 1 ham" }).waitFor();
  // A browser's own word for an answer of status 422 is no fault of the page.
  assert.deepEqual(faults.filter((fault) => !fault.includes("422")), []);
  await close();
});

test("among a thousand users one is found by name", async () => {
  const { page, faults, close } = await open("/");
  const users = Array.from({ length: 1_003 }, (_, count) => ({ name: `user-${String(count).padStart(4, "0")}`, admin: count === 0, disabled: false, rules: [], tokens: [] }));
  await page.route("**/admin/users", (route) => route.fulfill({ json: { users, everyone: [], anonymous: [] } }));
  await page.getByRole("link", { name: "Access" }).click();
  await page.locator("#users-count", { hasText: "1,003 users" }).waitFor();
  await page.locator("#users-shown", { hasText: "50 users of 1,003 users shown; search for the others" }).waitFor();
  await page.locator("#user-search").fill("0777");
  const found = page.locator("#users details");
  await page.locator("#users-shown", { hasText: "1 user of 1,003 users shown" }).waitFor();
  assert.equal(await found.count(), 1);
  await found.locator("summary").click();
  await found.getByRole("button", { name: "Remove user" }).waitFor();
  await page.screenshot({ path: join(scratch, "users.png"), animations: "disabled" });
  assert.deepEqual(faults, []);
  await close();
});

test("rows whose first cells say the same keep the actions of their own items", async () => {
  const { page, faults, close } = await open("/");
  const clicked = await page.evaluate(async () => {
    const { button, cell, fill, keyed } = await import("/gatepost/page.js");
    const users = [];
    const rows = () => ["anna", "berta"].map((user) => [keyed(cell("sensor"), user), cell(user), cell(button("Act", async () => users.push(user)))]);
    for (let time = 0; time < 2; time += 1) fill("all-sessions", rows());
    for (const act of document.querySelectorAll("#all-sessions button")) act.click();
    return users;
  });
  assert.deepEqual(clicked, ["anna", "berta"]);
  assert.deepEqual(faults, []);
  await close();
});

test("on a phone the table of clients scrolls in its card, and its names can be read", async () => {
  const client = await mqtt.connectAsync(`mqtt://${server.binds.mqtt}`, { clientId: "a-very-long-client-identifier-of-a-device-0123456789-abcdefghijklmnopqrstuvwxyz" });
  const { page, faults, close } = await open("/#access", { viewport: { width: 390, height: 844 } });
  const row = page.locator("#all-sessions tr", { hasText: "a-very-long-client-identifier" });
  const { width } = await row.locator("td").first().boundingBox();
  assert.ok(width > 120, `${width} pixels`);
  await row.getByRole("button").click();
  await page.locator("#session-detail h3").waitFor();
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  assert.deepEqual(faults, []);
  await client.endAsync();
  await close();
});
