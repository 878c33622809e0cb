// The dashboard and a user's live page in a real browser: what arrives shows without a reload.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { join } from "node:path";
import mqtt from "mqtt";
import { launch, openPage } from "./browser.mjs";
import { Server } from "./server.mjs";

const GTUBE = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
const root = join(import.meta.dirname ?? ".", "../..");
const pictures = join(root, process.env.UPDATE_SCREENSHOTS ? "docs/images" : "target/browser");
const scratch = join(root, "target/browser");

let server;
let browser;

before(async () => {
  for (const folder of [pictures, scratch]) mkdirSync(folder, { recursive: true });
  server = await Server.start({
    "hall.html": `<!doctype html><html lang="en"><title>Hall</title><body><h1>Hall</h1><p id="value">{{ live("hall/temperature") }}</p></body></html>`,
  }, {}, [
    `store.series_interval = "1s"`,
    // Clients of POP3 come through a proxy, so that a test can be a client of another machine.
    `listeners.pop3.proxy_protocol = ["127.0.0.1"]`,
    `bans.points_max = 12`,
  ]);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.remove();
});

const open = (path, options) => openPage(browser, server.origin + path, options);

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
  page.on("dialog", (dialog) => dialog.accept());
  await page.getByRole("link", { name: "Quarantine" }).click();
  const kept = page.locator("#quarantine-list details", { hasText: "Kept <i>aside</i>" });
  await kept.locator("summary").click();
  await kept.getByRole("button", { name: "Show text" }).click();
  await kept.locator("pre", { hasText: "GTUBE" }).waitFor();
  assert.equal(await page.locator("#view-quarantine i, #view-quarantine img").count(), 0);
  await kept.getByRole("button", { name: "Learn as ham" }).click();
  await page.locator("#quarantine-status", { hasText: "Learned: ham." }).waitFor();
  await kept.getByRole("button", { name: "Allow sender" }).click();
  await page.locator("#quarantine-status", { hasText: "Mail from sender@example.org is accepted from now on." }).waitFor();
  // Nothing confirms who sent it, so it passes in spite of its score, not of an own quarantine.
  const allowed = await server.mail("From a friend", GTUBE, "alarms+fire@localhost");
  assert.equal(allowed.status, 0, allowed.transcript);
  await page.getByRole("link", { name: "Overview" }).click();
  await row(page, "From a friend").locator(".badge.accept").waitFor();
  await page.getByRole("link", { name: "Quarantine" }).click();
  await page.locator("#senders").getByRole("button", { name: "Remove sender@example.org" }).click();
  await page.locator("#senders", { hasText: "None yet" }).waitFor();
  const reader = await fetch(`${server.origin}/topics/kept/offer`, { headers: { accept: "application/x-ndjson" } });
  await kept.getByRole("button", { name: "Release" }).click();
  await page.locator("#quarantine-status", { hasText: "Released to 1 subscriber." }).waitFor();
  await kept.waitFor({ state: "detached" });
  const { value } = await reader.body.getReader().read();
  assert.match(new TextDecoder().decode(value), /Kept <i>aside<\/i>/);
  assert.deepEqual(faults, []);
  await close();
});

test("the keyboard keeps its place in the quarantine while mail comes and goes", async () => {
  const long = "A subject that is cut off in its row, " + "and goes on ".repeat(20) + "to its end";
  for (const subject of ["Below", long]) assert.equal((await server.mail(subject, GTUBE, "kept+offer@localhost")).status, 0);
  const { page, faults, close } = await open("/#quarantine");
  page.on("dialog", (dialog) => dialog.accept());
  const kept = (text) => page.locator("#quarantine-list details", { hasText: text });
  const focused = (locator) => locator.evaluate((element) => element === document.activeElement);
  await kept(long).locator("summary").press("Enter");
  assert.ok(await kept(long).locator(".what b").evaluate((subject) => subject.scrollWidth <= subject.clientWidth), "opened, all of it is read");
  const learn = kept(long).getByRole("button", { name: "Learn as spam" });
  await learn.press("Enter");
  await page.locator("#quarantine-status", { hasText: "Learned: spam." }).waitFor();
  await page.waitForFunction(() => document.activeElement.textContent === "Learn as spam");
  await server.mail("Another", GTUBE, "kept+offer@localhost");
  await kept("Another").waitFor();
  assert.ok(await focused(learn), "a row that came moves nobody");
  await kept(long).getByRole("button", { name: "Delete" }).press("Enter");
  await kept(long).waitFor({ state: "detached" });
  await page.waitForFunction(() => document.activeElement.matches("summary"));
  assert.ok(await focused(kept("Below").locator("summary")), "the next one has it");
  for (const subject of ["Below", "Another"]) {
    await kept(subject).locator("summary").click();
    await kept(subject).getByRole("button", { name: "Delete" }).click();
    await kept(subject).waitFor({ state: "detached" });
  }
  await page.getByRole("button", { name: "Delete now" }).click();
  await page.locator("#quarantine-status", { hasText: "Deleted: 3 messages." }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("the quarantine is searched, sorted, and emptied several at once", async () => {
  for (const subject of ["Bulk one", "Bulk two", "Single"]) assert.equal((await server.mail(subject, GTUBE, "kept+offer@localhost")).status, 0);
  const { page, faults, close } = await open("/#quarantine");
  page.on("dialog", (dialog) => dialog.accept());
  const list = page.locator("#quarantine-list details");
  await page.locator("#quarantine-search").fill("bulk");
  await page.locator("#quarantine-sort").selectOption("oldest");
  await list.nth(2).waitFor({ state: "detached" });
  // The list may still have the order from before.
  await list.first().filter({ hasText: "Bulk one" }).waitFor();
  assert.match(await page.locator("#quarantine-pages").textContent(), /1 to 2 of 2/);
  await page.getByRole("button", { name: "Choose all shown" }).click();
  await page.locator("#quarantine-chosen", { hasText: "2 messages chosen" }).waitFor();
  await page.locator("#quarantine-bulk").getByRole("button", { name: "Delete" }).click();
  await page.locator("#no-quarantine", { hasText: "No message matches." }).waitFor();
  await page.getByRole("button", { name: "Delete now" }).click();
  await page.locator("#quarantine-status", { hasText: "Deleted: 2 messages." }).waitFor();
  await page.locator("#quarantine-search").fill("");
  await page.getByRole("button", { name: "Search", exact: true }).click();
  await list.filter({ hasText: "Single" }).locator("summary").click();
  await list.filter({ hasText: "Single" }).getByRole("button", { name: "Delete" }).click();
  await list.filter({ hasText: "Single" }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Delete now" }).click();
  await page.locator("#quarantine-status", { hasText: "Deleted: 1 message." }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("the story names every subscriber and what became of it there", async () => {
  const client = await mqtt.connectAsync(`mqtt://${server.binds.mqtt}`, { clientId: "hall-display", protocolVersion: 5, reconnectPeriod: 0 });
  await client.subscribeAsync("alarms/#", { qos: 1 });
  const { page, faults, close } = await open("/");
  await page.locator("#link", { hasText: "Live" }).waitFor();
  await server.mail("Water in the cellar", "Come quickly.");
  const journey = row(page, "Water in the cellar");
  await journey.locator("summary").click();
  const step = journey.locator(".steps tr", { hasText: "hall-display" });
  await step.waitFor();
  // Its acknowledgement may come a moment later; the story is asked for anew each time.
  for (let tries = 0; tries < 50 && !(await step.textContent()).includes("acknowledged"); tries += 1) {
    await journey.locator("summary").click();
    await journey.locator("summary").click();
    await page.waitForTimeout(100);
  }
  assert.match(await step.textContent(), /alarms\/fire.*1.*acknowledged/);
  await page.screenshot({ path: join(pictures, "story.png"), animations: "disabled" });
  await client.endAsync();
  assert.deepEqual(faults, []);
  await close();
});

test("addresses are banned and sessions ended by an administrator", async () => {
  const client = await mqtt.connectAsync(`mqtt://${server.binds.mqtt}`, { protocolVersion: 5, clientId: "squatter/1", clean: false, properties: { sessionExpiryInterval: 604_800 }, reconnectPeriod: 0 });
  const ended = new Promise((resolve) => client.once("disconnect", (packet) => resolve(packet.reasonCode)));
  const { page, faults, close } = await open("/#access");
  page.on("dialog", (dialog) => dialog.accept());

  await page.locator("#ban-network").fill("192.0.2.0/24");
  await page.locator("#ban-reason").fill("abuse");
  await page.getByRole("button", { name: "Ban", exact: true }).click();
  const ban = page.locator("#bans tr", { hasText: "192.0.2.0/24" });
  await ban.locator("td", { hasText: "abuse" }).waitFor();
  const session = page.locator("#all-sessions tr", { hasText: "squatter/1" });
  await session.waitFor();
  await page.setViewportSize({ width: 1280, height: 1500 });
  await page.screenshot({ path: join(scratch, "bans.png"), animations: "disabled", fullPage: true });
  await ban.getByRole("button").click();
  await ban.waitFor({ state: "detached" });
  await session.getByRole("button", { name: "Inspect squatter/1" }).click();
  const detail = page.locator("#session-detail");
  await detail.getByRole("heading", { name: "squatter/1" }).waitFor();
  await detail.locator("dd", { hasText: "mqtt 5" }).waitFor();
  await detail.getByRole("button", { name: "End session" }).click();
  assert.equal(await ended, 0x98);
  await session.waitFor({ state: "detached" });
  assert.deepEqual(faults, []);
  await client.endAsync(true);
  await close();
});

/** What POP3 answers to `line` of a client at `address`; empty if the connection ends without an answer. */
function pop3(address, line) {
  const [host, port] = server.binds.pop3.split(":");
  const socket = connect(Number(port), host, () => socket.write(`PROXY TCP4 ${address} ${host} 4321 ${port}\r\n`));
  let answers = "";
  socket.on("data", (text) => {
    if (!answers) socket.write(line);
    answers += text;
  });
  // A connection that is closed unread is reset.
  socket.on("error", () => {});
  return new Promise((resolve) => socket.once("close", () => resolve(answers)));
}

test("a ban of a client's own making is shown with its reason, and ended there", async () => {
  const { page, faults, close } = await open("/#access");
  page.on("dialog", (dialog) => dialog.accept());
  // Each HTTP line is a violation of the protocol, of 2 points.
  for (let offences = 0; offences < 6; offences += 1) {
    assert.match(await pop3("203.0.113.9", "GET / HTTP/1.1\r\n"), /^\+OK /);
  }
  assert.equal(await pop3("203.0.113.9", "QUIT\r\n"), "");
  const ban = page.locator("#bans tr", { hasText: "203.0.113.9" });
  await ban.locator("td", { hasText: "protocol" }).waitFor();
  await ban.getByRole("button").click();
  await ban.waitFor({ state: "detached" });
  assert.match(await pop3("203.0.113.9", "QUIT\r\n"), /^\+OK [^]*\+OK/);
  assert.deepEqual(faults, []);
  await close();
});

test("a DNS list that does not answer is named", async () => {
  const { page, faults, close } = await open("/");
  await page.route("**/admin/rules?*", async (route) => {
    const answer = await route.fetch();
    const rules = await answer.json();
    assert.deepEqual(rules.silent_lists, []);
    await route.fulfill({ json: { ...rules, silent_lists: [{ list: "list.example", skipped: 12 }] } });
  });
  await page.goto(server.origin + "/#rules");
  await page.reload();
  await page.locator("#silent-lists p", { hasText: "The DNS list list.example does not answer; 12 queries omitted since." }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("rules are looked at, and a reload tells what it changes", async () => {
  await server.mail("Counted for its rules", GTUBE);
  const { page, faults, close } = await open("/#rules");
  await page.locator("#most-hit tr", { hasText: "GTUBE" }).waitFor();
  await server.procedure("later", `return function() return "accept" end\n`);
  await page.getByRole("button", { name: "Measure" }).click();
  await page.locator("#rules-status", { hasText: /Measured on the \d+ mails?/ }).waitFor();
  await page.locator("#slowest-rules .mono").first().waitFor();
  await server.configure(`[[scope]]`, `path = "/later-scope"`, `topics = ["later/#"]`, `run = ["/keep"]`);
  await page.getByRole("button", { name: "What would a reload change?" }).click();
  await page.locator("#difference tr", { hasText: "Scopes added" }).waitFor();
  await page.getByRole("button", { name: "Reload", exact: true }).click();
  await page.locator("#rules-status", { hasText: "Reloaded." }).waitFor();
  await page.locator("#difference tr", { hasText: "/later-scope" }).first().waitFor();
  await page.getByRole("button", { name: "What would a reload change?" }).click();
  await page.locator("#rules-status", { hasText: "would change nothing" }).waitFor();
  await server.configure(`[[scope]]`, `path = "/broken"`, `run = ["/nothing"]`);
  await page.getByRole("button", { name: "Reload", exact: true }).click();
  await page.locator("#difference .problems.wrong", { hasText: "/nothing" }).waitFor();
  // A browser's own word for an answer of status 422 is no fault of the page.
  assert.deepEqual(faults.filter((fault) => !fault.includes("422")), []);
  await close();
});

/** Everything that axe finds on a page. */
async function findings(page) {
  await page.addScriptTag({ path: createRequire(import.meta.url).resolve("axe-core/axe.min.js") });
  const { violations } = await page.evaluate(() => window.axe.run());
  return violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]);
}

const WIDTHS = { desktop: { viewport: { width: 1280, height: 1200 } }, tablet: { viewport: { width: 800, height: 1100 } }, phone: { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2 } };

test("axe finds nothing on any view, in light and dark, at three widths", async () => {
  await server.mail("Kept for axe", GTUBE, "kept+offer@localhost");
  await fetch(`${server.origin}/admin/users/everyone/rules`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ access: ["subscribe"], filter: "news/#" }),
  });
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, options] of Object.entries(WIDTHS)) {
      const { page, close } = await open("/", { ...options, colorScheme, bypassCSP: true });
      await page.locator("#link", { hasText: "Live" }).waitFor();
      for (const view of ["overview", "history", "quarantine", "explorer", "rules", "access", "procedures", "server"]) {
        await page.locator(`nav a[href="#${view}"]`).click();
        const shown = page.locator(`#view-${view}`);
        await shown.waitFor();
        if (view === "history") await shown.locator("path.line").first().waitFor({ state: "attached" });
        if (view === "access") await shown.locator("details").first().waitFor();
        const first = shown.locator("details summary").first();
        if (await first.count()) await first.click();
        if (view === "quarantine") {
          await shown.getByRole("button", { name: "Show source" }).click();
          await shown.locator("pre:not([hidden])").waitFor();
        }
        assert.deepEqual(await findings(page), [], `${view}, ${colorScheme}, ${width}`);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(overflow <= 0, `${view} is ${overflow} pixels too wide at ${width} width`);
        await page.screenshot({ path: join(scratch, `${view}-${width}-${colorScheme}.png`), animations: "disabled" });
      }
      await page.keyboard.press("Control+k");
      await page.locator("#palette-list li").first().waitFor();
      assert.deepEqual(await findings(page), [], `palette, ${colorScheme}, ${width}`);
      await page.screenshot({ path: join(scratch, `palette-${width}-${colorScheme}.png`), animations: "disabled" });
      await close();
    }
  }
});

test("everything can be reached and worked by the keyboard", async () => {
  await server.mail("Kept for the keyboard", GTUBE, "kept+keyboard@localhost");
  const { page, faults, close } = await open("/");
  await page.locator("#link", { hasText: "Live" }).waitFor();
  const focused = () => page.evaluate(() => document.activeElement.textContent.trim().replace(/\s+/g, " "));
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "Skip to the content");
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "Overview");
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "History");
  await page.keyboard.press("Tab");
  assert.match(await focused(), /^Quarantine/);
  await page.keyboard.press("Enter");
  const kept = page.locator("#quarantine-list details").first();
  // An element of a view that is not shown yet cannot have the focus.
  await kept.locator("summary").waitFor();
  await kept.locator("summary").focus();
  await page.keyboard.press("Enter");
  await kept.getByRole("button", { name: "Show text" }).waitFor();
  await page.keyboard.press("Tab");
  assert.equal(await focused(), "Show text");
  await page.keyboard.press("Enter");
  await kept.locator("pre:not([hidden])").waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("a live value moves without a reload, and goes on after the server was stopped", async () => {
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
  // There is a subscriber, so that there are deliveries to show.
  const listeners = await Promise.all(["hall-display", "yard-display", "archive"].map((clientId) =>
    mqtt.connectAsync(`mqtt://${server.binds.mqtt}`, { clientId, protocolVersion: 5, reconnectPeriod: 0 })));
  for (const client of listeners) await client.subscribeAsync(["sensors/#", "ups/#", "alarms/#"], { qos: 1 });
  const ticking = setInterval(() => server.publish("sensors/hall", "20").catch(() => {}), 90);
  for (const [subject, body] of [
    ["UPS rack-2: on battery, 38 minutes left", "Load 41 %."],
    ["You have WON a prize", GTUBE],
    ["Camera 3: motion in the yard", "See the attached picture."],
    ["Backup of files finished, 212 GB", "All is well."],
  ]) await server.mail(subject, body);
  // Pictures that are kept show a while of traffic; a test need not wait for it.
  for (let seconds = 0; process.env.UPDATE_SCREENSHOTS && seconds < 75; seconds += 1) {
    await new Promise((done) => setTimeout(done, 1_000));
    if (seconds % 9 === 4) await server.mail(seconds % 2 ? "Offer of the week" : "Tank at 40 %", seconds % 2 ? GTUBE : "Fine.");
    for (let more = 0; more < 12 * Math.sin(seconds / 9) ** 2; more += 1) await server.publish("sensors/yard", `${more}`);
  }
  for (const [name, options] of [
    ["dashboard", { viewport: { width: 1280, height: 1200 } }],
    ["dashboard-dark", { viewport: { width: 1280, height: 1200 }, colorScheme: "dark" }],
    ["dashboard-phone", WIDTHS.phone],
    ["dashboard-phone-dark", { ...WIDTHS.phone, colorScheme: "dark" }],
  ]) {
    const { page, faults, close } = await open("/", options);
    await page.locator("#link", { hasText: "Live" }).waitFor();
    await row(page, "UPS rack-2").first().waitFor();
    if (!name.includes("phone")) {
      const rejected = row(page, "You have WON a prize").first();
      await rejected.locator("summary").click();
      await rejected.locator(".story").waitFor();
      // Its story, rather than the rows above it.
      await rejected.evaluate((row) => row.parentElement.scrollTo(0, row.offsetTop - row.previousElementSibling.offsetHeight * 2 - row.parentElement.offsetTop));
    }
    await page.locator("#sessions", { hasText: "archive" }).waitFor();
    const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(overflow <= 0, `${name} is ${overflow} pixels too wide`);
    await page.screenshot({ path: join(pictures, `${name}.png`), animations: "disabled" });
    assert.deepEqual(faults, []);
    await close();
  }
  clearInterval(ticking);
  for (const client of listeners) await client.endAsync();
});

test("a sink that cannot deliver shows its lag and its last error", async () => {
  await server.configure(`[[sink]]`, `name = "pager"`, `filters = ["pager/#"]`, `webhook.url = "http://127.0.0.1:1/"`, `webhook.allow_private = true`);
  const reloaded = await fetch(`${server.origin}/admin/reload`, { method: "POST" });
  assert.equal(reloaded.status, 200, await reloaded.text());
  const { page, faults, close } = await open("/");
  await fetch(`${server.origin}/topics/pager/anna`, { method: "POST", body: "come" });
  const shown = page.locator("#sinks tr", { hasText: "pager" });
  await shown.locator(".warn", { hasText: "refused" }).waitFor();
  await shown.locator("td", { hasText: /^[1-9][0-9]* s$/ }).waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("the first user is made here, and from then on logins and rules hold", async () => {
  const { page, close } = await open("/#access");
  await page.locator("#first-user").waitFor();
  await page.getByLabel("Name", { exact: true }).fill("root");
  await page.locator("#new-password").fill("secret");
  await page.getByRole("button", { name: "Add user" }).click();
  await page.getByLabel("User", { exact: true }).fill("root");
  await page.getByLabel("Password or token").fill("secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.locator("#users details", { hasText: "administrator" }).waitFor();
  assert.equal((await fetch(server.origin + "/")).status, 401);

  await page.getByLabel("Name", { exact: true }).fill("anna");
  await page.locator("#new-password").fill("others");
  await page.getByRole("button", { name: "Add user" }).click();
  const anna = page.locator('#users details[data-name="anna"]');
  await anna.locator("summary").click();
  await anna.getByLabel("Topic filter").fill("home/%u/#");
  await anna.getByRole("button", { name: "Add rule" }).click();
  await page.waitForFunction(() => document.activeElement.matches('#users [data-name="anna"] summary'));
  await anna.locator("td", { hasText: "home/%u/#" }).waitFor();
  const login = { authorization: "Basic " + Buffer.from("anna:others").toString("base64") };
  const publish = async (topic, headers) => (await fetch(`${server.origin}/topics/${topic}`, { method: "POST", body: "x", headers })).status;
  assert.equal(await publish("home/anna/door", login), 200);
  assert.equal(await publish("home/otto/door", login), 403);
  assert.equal((await fetch(server.origin + "/admin/users", { headers: login })).status, 403);

  await anna.getByLabel("Purpose").fill("doorbell");
  await anna.getByRole("button", { name: "Create token" }).click();
  await page.waitForFunction(() => document.activeElement.matches(".secret code"));
  const token = await anna.locator(".secret code").textContent();
  assert.equal(await publish("home/anna/door", { authorization: "Bearer " + token }), 200);
  await page.screenshot({ path: join(pictures, "access.png"), animations: "disabled" });
  await anna.getByRole("button", { name: "Switch off" }).click();
  await anna.locator(".badge", { hasText: "switched off" }).waitFor();
  assert.equal(await publish("home/anna/door", login), 403);
  // Each change is in the audit log: who, from where, what.
  const changed = (action, actor) => page.locator("#changes tr", { hasText: action }).filter({ hasText: actor }).first();
  await changed("PATCH /admin/users/anna", "root").waitFor();
  await changed("POST /admin/users/anna/rules", "root").waitFor();
  await changed("POST /admin/users", "anonymous").waitFor();
  await page.locator("#changes td", { hasText: "http 127.0.0.1:" }).first().waitFor();
  const log = await page.locator("#changes").textContent();
  assert.ok(!log.includes("others") && !log.includes(token), log);
  await close();
});
