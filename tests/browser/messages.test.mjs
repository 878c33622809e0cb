// The list of messages in a real browser: its first entry, its pause, the search in the journal, and
// who holds up the others.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createConnection } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import mqtt from "mqtt";
import { openPage, pressWhile } from "./browser.mjs";
import { GTUBE, browser, scratch, server } from "./served.mjs";

async function open() {
  const opened = await openPage(browser, server.origin + "/");
  await opened.page.locator("#link", { hasText: "Live" }).waitFor();
  return opened;
}

const recent = (page, text) => page.locator("#list details", { hasText: text });
const found = (page) => page.locator("#found details");

test("what the empty list says to type makes an entry", async () => {
  const { page, faults, close } = await open();
  const command = await page.locator("#example code").textContent();
  await page.screenshot({ path: join(scratch, "empty.png"), animations: "disabled" });
  await promisify(execFile)("sh", ["-c", command]);
  await recent(page, "Hello").locator(".badge.accept, .badge.tag").waitFor();
  await page.locator("#no-messages").waitFor({ state: "hidden" });
  assert.deepEqual(faults, []);
  await close();
});

test("an opened row stays where it is, and what arrives is counted until the list goes on", async () => {
  const { page, faults, close } = await open();
  await server.mail("To be read", "Slowly.");
  const row = recent(page, "To be read");
  await row.locator("summary").click();
  await row.locator(".story").waitFor();
  await server.publish("kept/one", "1");
  await server.publish("kept/two", "2");
  const resume = page.locator("#pause", { hasText: "Resume, 2 new" });
  await resume.waitFor();
  assert.equal(await recent(page, "kept/two").count(), 0);
  assert.match(await page.locator("#list details").first().textContent(), /To be read/);
  await page.screenshot({ path: join(scratch, "paused.png"), animations: "disabled" });
  await resume.click();
  await recent(page, "kept/two").waitFor();
  assert.equal(await page.locator("#pause").textContent(), "Pause");
  assert.ok(await row.evaluate((row) => row.open), "it is still being read");
  // Closing the row that paused the list has it go on as well.
  await row.locator("summary").click();
  await row.locator("summary").click();
  await server.publish("kept/three", "3");
  await page.locator("#pause", { hasText: "Resume, 1 new" }).waitFor();
  await row.locator("summary").click();
  await recent(page, "kept/three").waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("the whole journal is searched, a page at a time", async () => {
  for (let count = 0; count < 230; count += 10) {
    await Promise.all(Array.from({ length: 10 }, (_, more) => server.publish(`kept/shelf/${count + more}`, "x")));
  }
  await server.mail("Offer <b>of</b> the week", GTUBE);
  const { page, faults, close } = await open();
  const search = page.getByRole("button", { name: "Search all" });
  await page.locator("#search").fill("kept/shelf/1");
  await search.click();
  // 1, 10 to 19, 100 to 199.
  await page.locator("#found-status", { hasText: "The newest 100 messages; there are more." }).waitFor();
  assert.equal(await found(page).count(), 100);
  await page.getByRole("button", { name: "Show older ones" }).click();
  await page.locator("#found-status", { hasText: "111 messages: all that match in the journal." }).waitFor();
  assert.equal(await found(page).count(), 111);
  await found(page).last().locator(".what b", { hasText: /^kept\/shelf\/1$/ }).waitFor();
  await page.screenshot({ path: join(scratch, "found.png"), animations: "disabled" });

  await page.locator("#search").fill("");
  await page.locator(".more summary", { hasText: "More conditions" }).click();
  await page.locator("#rule").fill("gtube");
  await page.locator("#period").selectOption("1h");
  await search.click();
  await page.locator("#found-status", { hasText: "1 message: all that match" }).waitFor();
  await found(page).filter({ hasText: "Offer <b>of</b> the week" }).waitFor();
  assert.equal(await page.locator("#found b b").count(), 0);

  await page.locator("#rule").fill("");
  await page.locator("#topic").fill("kept/+/229");
  await search.click();
  await page.locator("#found-status", { hasText: "1 message: all that match" }).waitFor();
  await page.locator("#period").selectOption("between");
  await page.locator("#until").fill("2001-01-01T00:00");
  await search.click();
  await page.locator("#found-status", { hasText: "No message in the journal matches." }).waitFor();
  await page.getByRole("button", { name: "Back to recent messages" }).click();
  await recent(page, "kept/shelf/229").waitFor();
  assert.deepEqual(faults, []);

  await page.locator("#topic").fill("a/#/b");
  await search.click();
  await page.locator("#found-status.wrong").waitFor();
  await close();
});

test("a row of a table is the same one after its figures have changed", async () => {
  const { page, faults, close } = await open();
  await server.publish("hall/door", "open");
  const row = page.locator("#topics tr", { hasText: "hall/door" });
  await row.waitFor();
  await row.evaluate((row) => getSelection().selectAllChildren(row.cells[0]));
  const count = await row.locator("td").last().textContent();
  await server.publish("hall/door", "shut");
  await row.locator("td").last().filter({ hasNotText: new RegExp(`^${count}$`) }).waitFor();
  assert.equal(await page.evaluate(() => getSelection().toString().trim()), "hall/door");
  assert.deepEqual(faults, []);
  await close();
});

test("a selected figure stays until it is no longer selected", async () => {
  const { page, faults, close } = await open();
  await server.publish("hall/window", "open");
  const row = page.locator("#topics tr", { hasText: "hall/window" });
  await row.waitFor();
  const count = await row.locator("td").last().textContent();
  await row.evaluate((row) => getSelection().selectAllChildren(row.cells[2]));
  await server.publish("hall/window", "shut");
  await server.publish("hall/gate", "shut");
  await page.locator("#topics tr", { hasText: "hall/gate" }).waitFor();
  assert.equal(await page.evaluate(() => getSelection().toString().trim()), count);
  await page.evaluate(() => getSelection().empty());
  await row.locator("td").last().filter({ hasNotText: new RegExp(`^${count}$`) }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("a click on a recent message counts although others arrive above it meanwhile", async () => {
  assert.equal((await server.mail("Pressed upon", "Hello.")).status, 0);
  const { page, faults, close } = await open();
  await page.addInitScript(() => {
    window.heard = "";
    window.EventSource = class extends EventSource {
      constructor(url) {
        super(url);
        this.addEventListener("message", (event) => (window.heard += event.data));
      }
    };
  });
  await page.reload();
  await page.locator("#link", { hasText: "Live" }).waitFor();
  await recent(page, "Pressed upon").waitFor();
  await pressWhile(page, recent(page, "Pressed upon").locator("summary"), async () => {
    assert.equal((await server.mail("Above it", "Hello.")).status, 0);
    await page.waitForFunction(() => window.heard.includes("Above it"));
    // It would have been drawn in the next frame.
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.equal(await recent(page, "Above it").count(), 0);
  });
  await recent(page, "Pressed upon").locator(".story").waitFor();
  await page.locator("#pause", { hasText: "Resume, 1 new" }).waitFor();
  await recent(page, "Pressed upon").locator("summary").click();
  await recent(page, "Above it").waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("a click in the quarantine counts although others arrive above it meanwhile", async () => {
  assert.equal((await server.mail("Pressed in quarantine", GTUBE, "kept+offer@localhost")).status, 0);
  const { page, faults, close } = await open();
  await page.getByRole("link", { name: "Quarantine" }).click();
  const kept = (text) => page.locator("#quarantine-list details", { hasText: text });
  await kept("Pressed in quarantine").waitFor();
  const count = await page.locator("#quarantine-count").textContent();
  await pressWhile(page, kept("Pressed in quarantine").locator("summary"), async () => {
    assert.equal((await server.mail("Above in quarantine", GTUBE, "kept+offer@localhost")).status, 0);
    await page.locator("#quarantine-count", { hasNotText: new RegExp(`^${count}$`) }).waitFor();
    assert.equal(await kept("Above in quarantine").count(), 0);
  });
  await kept("Pressed in quarantine").getByRole("button", { name: "Show text" }).waitFor();
  await kept("Above in quarantine").waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("a click on a topic counts although topics appear above it meanwhile", async () => {
  await server.publish("pressed?retain=1", "here");
  const { page, faults, close } = await open();
  await page.getByRole("link", { name: "Topics", exact: true }).click();
  const level = (name) => page.locator(`#topic-tree li[data-name="${name}"]`);
  await level("pressed").waitFor();
  const found = await page.locator("#topics-found").textContent();
  await pressWhile(page, level("pressed").locator("summary"), async () => {
    await server.publish("a-new-one", "above");
    await page.waitForFunction((before) => document.querySelector("#topics-found").textContent !== before, found);
    assert.equal(await level("a-new-one").count(), 0);
  });
  await level("pressed").locator("td", { hasText: "here" }).waitFor();
  await level("a-new-one").waitFor();
  assert.deepEqual(faults, []);
  await close();
});

/** A client that subscribes and then reads nothing. */
async function subscriberThatDoesNotRead(clientId, filter) {
  const [host, port] = server.binds.mqtt.split(":");
  const socket = createConnection({ host, port: Number(port) });
  await new Promise((done) => socket.once("connect", done));
  const text = (value) => [0, value.length, ...Buffer.from(value)];
  const packet = (type, ...body) => Buffer.from([type, body.length, ...body]);
  socket.write(packet(0x10, ...text("MQTT"), 4, 2, 0, 0, ...text(clientId)));
  socket.write(packet(0x82, 0, 1, ...text(filter), 0));
  let heard = 0;
  // CONNACK has four bytes, SUBACK five.
  await new Promise((done) => socket.on("data", (bytes) => (heard += bytes.length) >= 9 && done()));
  socket.pause();
  socket.on("error", () => {});
  return socket;
}

test("a subscriber that holds up its publishers is named, with the reason", async () => {
  const { page, faults, close } = await open();
  const slow = await subscriberThatDoesNotRead("hall-wall", "video/#");
  const camera = await mqtt.connectAsync(`mqtt://${server.binds.mqtt}`, { clientId: "camera", protocolVersion: 5, reconnectPeriod: 0 });
  const frame = Buffer.alloc(500_000);
  for (let count = 0; count < 80; count += 1) camera.publish("video/hall", frame, { qos: 0 });
  const row = page.locator("#slow tr", { hasText: "hall-wall" });
  await row.waitFor();
  await row.filter({ hasText: "its socket accepts no more" }).waitFor();
  await row.filter({ hasText: "127.0.0.1:" }).waitFor();
  await page.screenshot({ path: join(scratch, "slow.png"), animations: "disabled" });
  slow.destroy();
  // It is over, and still explained.
  await row.locator(".dot.open").waitFor();
  assert.deepEqual(faults, []);
  await camera.endAsync(true);
  await close();
});
