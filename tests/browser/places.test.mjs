// Addresses of single items, the list of commands, and deletions that are undone.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import mqtt from "mqtt";
import { openPage } from "./browser.mjs";
import { GTUBE, browser, scratch, server } from "./served.mjs";

const open = (hash, options) => openPage(browser, server.origin + "/" + hash, options);
const focused = (locator) => locator.evaluate((element) => element === document.activeElement);
const kept = async () => (await (await fetch(server.origin + "/admin/quarantine")).json()).messages;
const keep = (subject) => server.mail(subject, GTUBE, "kept+offer@localhost");

test("a message, an entry of the quarantine, a topic and a client have addresses", async () => {
  assert.equal((await keep("Linked to")).status, 0);
  await server.publish("hall/lamp?retain=1", "on");
  const client = await mqtt.connectAsync(`mqtt://${server.binds.mqtt}`, { clientId: "with/slash & #" });
  await client.subscribeAsync("hall/#");
  const { page, faults, close } = await open("#quarantine");
  const row = page.locator("#quarantine-list details", { hasText: "Linked to" });
  await row.locator("summary").click();
  const link = await row.getByRole("link", { name: "Link" }).getAttribute("href");
  const message = await row.locator("dd a").first().getAttribute("href");
  await close();
  assert.deepEqual(faults, []);

  for (const [hash, shown] of [
    [link, "#quarantine-list details[open] .story"], [message, "#found details[open] .story"],
    ["#topic/hall/lamp", "#topic-tree li[data-name=hall] li[data-name=lamp]"], ["#rule/GTUBE", "#found-status:not(:empty)"],
  ]) {
    const { page, faults, close } = await open(hash);
    await page.locator(shown).first().waitFor({ state: "attached" });
    assert.deepEqual(faults, [], hash);
    await close();
  }
  const inspected = await open("#session/" + ["with", "slash & #"].map(encodeURIComponent).join("/"));
  await inspected.page.locator("#session-detail h3", { hasText: "with/slash & #" }).waitFor();
  await inspected.page.locator("#session-detail a", { hasText: "hall/#" }).click();
  await inspected.page.locator("#topic-tree li[data-name=hall]").waitFor();
  assert.deepEqual(inspected.faults, []);
  await inspected.page.goto(server.origin + "/#message/none");
  await inspected.page.locator("#found-status.wrong", { hasText: "There is no message none" }).waitFor();
  await inspected.close();
  await client.endAsync();
});

test("the whole console is less than 150 KB compressed", async () => {
  const folder = new URL("../../crates/gatepost-listeners/src/http/assets/", import.meta.url);
  const pages = { "dashboard.html": "/", "push.html": "/push", "senders.html": "/senders" };
  let total = 0;
  for (const name of await readdir(folder)) {
    if (name === "openapi.json") continue;
    const { headers } = await fetch(server.origin + (pages[name] ?? "/gatepost/" + name), { method: "HEAD", headers: { "Accept-Encoding": "gzip" } });
    assert.equal(headers.get("content-encoding"), "gzip", name);
    total += Number(headers.get("content-length"));
  }
  assert.ok(total > 10_000 && total < 150_000, `${total} bytes`);
});

test("the palette finds views, commands and names, by the keyboard alone", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const { page, faults, close } = await open("", { colorScheme });
    await page.locator("#link", { hasText: "Live" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.locator("#palette[open]").waitFor();
    await page.screenshot({ path: join(scratch, `palette-${colorScheme}.png`), animations: "disabled" });
    await page.keyboard.type("audit");
    await page.locator("#palette-list [aria-selected=true]", { hasText: "Audit log" }).waitFor();
    await page.keyboard.press("Enter");
    await page.locator("#view-access").waitFor();
    await page.locator("#palette").waitFor({ state: "hidden" });

    await page.keyboard.press("Control+k");
    await page.keyboard.type("hall/lamp");
    const options = page.locator("#palette-list [role=option]");
    await options.filter({ hasText: "Topic hall/lamp" }).waitFor();
    while (!(await page.locator("#palette-list [aria-selected=true]", { hasText: "Topic hall/lamp" }).count())) await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.locator("#topic-tree li[data-name=hall]").waitFor();
    await page.keyboard.press("Control+k");
    await page.keyboard.press("Escape");
    await page.locator("#palette").waitFor({ state: "hidden" });
    await page.evaluate(() => (location.hash = "overview"));
    await page.locator("#view-overview").waitFor();
    await page.keyboard.press("/");
    assert.ok(await focused(page.locator("#search")));
    assert.deepEqual(faults, []);
    await close();
  }
});

test("several messages are learned or released at once, which can be undone until its time is over", async () => {
  const gtube = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
  for (const number of ["one", "two"]) assert.equal((await server.mail(`Several ${number}`, gtube + number, "kept+several@localhost")).status, 0);
  const { page, faults, close } = await open("#quarantine");
  const several = async () => (await kept()).filter(({ subject }) => subject.startsWith("Several")).length;
  const bulk = page.locator("#quarantine-bulk");
  const choose = async () => {
    await page.locator("#quarantine-search").fill("Several");
    await page.getByRole("button", { name: "Search", exact: true }).click();
    await page.locator("#quarantine-pages", { hasText: "1 to 2 of 2" }).waitFor();
    await page.getByRole("button", { name: "Choose all shown" }).click();
    await page.locator("#quarantine-chosen", { hasText: "2 messages chosen" }).waitFor();
  };
  await choose();
  await bulk.getByRole("button", { name: "Release" }).click();
  await page.locator("#quarantine-leaving", { hasText: "2 messages will be released in 10 seconds." }).waitFor();
  await page.locator("#no-quarantine").waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.locator("#quarantine-status", { hasText: "2 messages stay in quarantine." }).waitFor();
  assert.equal(await several(), 2);

  await choose();
  await bulk.getByRole("button", { name: "Learn as ham" }).click();
  await page.locator("#quarantine-leaving", { hasText: "2 messages will be learned as ham" }).waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
  await page.locator("#quarantine-status", { hasText: "2 messages not learned as ham." }).waitFor();
  await choose();
  await bulk.getByRole("button", { name: "Learn as spam" }).click();
  // Another action does the one that waits first.
  await choose();
  await page.screenshot({ path: join(scratch, "bulk.png"), animations: "disabled" });
  await bulk.getByRole("button", { name: "Release" }).click();
  await page.locator("#quarantine-leaving", { hasText: "2 messages will be released" }).waitFor();
  await page.getByRole("button", { name: "Release now" }).click();
  await page.locator("#quarantine-status", { hasText: "Released: 2 messages." }).waitFor();
  assert.equal(await several(), 0);
  const changes = await (await fetch(server.origin + "/admin/changes?count=20")).json();
  const learned = changes.changes.filter(({ action }) => action.endsWith("/learn")).map(({ details }) => details.as);
  assert.deepEqual(learned, ["spam", "spam"], "not what was undone");
  assert.deepEqual(faults, []);
  await close();
});

test("all messages that a search finds are chosen at once, and later ones take the place of those that leave", async () => {
  for (let count = 0; count < 130; count += 1) await server.publish("kept/many", `${count}`);
  const { page, faults, close } = await open("#quarantine");
  const bulk = page.locator("#quarantine-bulk");
  await page.locator("#quarantine-search").fill("kept/many");
  await page.getByRole("button", { name: "Search", exact: true }).click();
  const pages = (text) => page.locator("#quarantine-pages", { hasText: text }).waitFor();
  await pages("1 to 100 of 130");
  const all = bulk.getByRole("button", { name: "Choose all 130" });
  assert.ok(await all.isHidden());
  await bulk.getByRole("button", { name: "Choose all shown" }).click();
  await bulk.getByRole("button", { name: "Delete" }).click();
  await pages("1 to 30 of 30");
  await page.getByRole("button", { name: "Undo" }).click();
  await pages("1 to 100 of 130");
  await bulk.getByRole("button", { name: "Choose all shown" }).click();
  await all.click();
  await page.locator("#quarantine-chosen", { hasText: "130 messages chosen" }).waitFor();
  await page.screenshot({ path: join(scratch, "all-found.png"), animations: "disabled" });
  await bulk.getByRole("button", { name: "Delete" }).click();
  await page.locator("#no-quarantine").waitFor();
  await page.getByRole("button", { name: "Delete now" }).click();
  await page.locator("#quarantine-status", { hasText: "Deleted: 130 messages." }).waitFor();
  assert.deepEqual((await kept()).filter(({ topic }) => topic === "kept/many"), []);
  assert.deepEqual(faults, []);
  await close();
});

test("a deletion can be undone until its time is over, or is done at once", async () => {
  for (const subject of ["Undone one", "Undone two"]) assert.equal((await keep(subject)).status, 0);
  const { page, faults, close } = await open("#quarantine");
  const list = page.locator("#quarantine-list details");
  const before = (await kept()).length;
  await page.locator("#quarantine-count", { hasText: new RegExp(`^${before}$`) }).waitFor();
  await page.getByRole("button", { name: "Choose all shown" }).click();
  await page.locator("#quarantine-bulk").getByRole("button", { name: "Delete" }).click();
  await list.first().waitFor({ state: "detached" });
  await page.locator("#quarantine-leaving", { hasText: `${before} messages will be deleted` }).waitFor();
  assert.ok(await page.locator("#quarantine-bulk").getByRole("button", { name: "Delete" }).isDisabled());
  await page.screenshot({ path: join(scratch, "undo.png"), animations: "disabled" });
  await page.getByRole("button", { name: "Undo" }).click();
  await list.nth(before - 1).waitFor();
  assert.equal((await kept()).length, before);

  await list.filter({ hasText: "Undone one" }).locator("summary").click();
  await list.filter({ hasText: "Undone one" }).getByRole("button", { name: "Delete" }).click();
  await page.locator("#quarantine-status", { hasText: "Deleted: 1 message." }).waitFor();
  assert.deepEqual((await kept()).filter(({ subject }) => subject === "Undone one"), []);
  assert.equal((await kept()).length, before - 1);
  assert.deepEqual(faults, []);
  await close();
});
