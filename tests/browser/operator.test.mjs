// Views for operators and pages for users, in a real browser: a procedure is changed, the log and the
// settings are read, a user releases a mail by the link in a digest.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, openPage, waitUntil } from "./browser.mjs";
import { Server } from "./server.mjs";

const GTUBE = "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X";
const scratch = join(import.meta.dirname ?? ".", "../../target/browser");
const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const WIDTHS = { wide: { viewport: { width: 1280, height: 900 } }, tablet: { viewport: { width: 768, height: 1024 } }, phone: { viewport: { width: 390, height: 844 } } };
const SETTINGS = `rules.paths = []
procedures.editable = true
procedure."/spamcheck".action = "quarantine"
quarantine_digest.every = "1s"
quarantine_digest.from = "quarantine@people.example"
quarantine_digest.base_url = "http://gate.people.example"
listeners.smtp.domains = ["people.example"]
listeners.smtp.routes = [{ recipients = "*@people.example", mailbox = "{user}" }]`;
const SCOPE = ["[[scope]]", `path = "/readings"`, `topics = ["readings/#"]`, `run = ["/limit"]`];
const ACCEPTS = `return function(message)\n    return "accept"\nend\n`;
const REFUSES = `return function(message)\n    if message.body == "hot" then\n        return "reject", "too hot"\n    end\nend\n`;
const HEADERS = { authorization: "Basic " + Buffer.from("root:secret").toString("base64") };

let server;
let browser;
let link;
let stopLink;
let digest;

before(async () => {
  mkdirSync(scratch, { recursive: true });
  server = await Server.start({}, { "limit.luau": ACCEPTS }, SETTINGS.split("\n"));
  await server.configure(...SCOPE);
  const reloaded = await fetch(server.origin + "/admin/reload", { method: "POST" });
  assert.ok(reloaded.ok, await reloaded.text());
  for (const payload of ["cold", "hot"]) await server.publish("readings/oven", payload);
  for (const [name, ...more] of [["root", "--admin"], ["anna"]]) {
    const added = spawnSync(process.env.GATEPOST, ["user", "add", name, ...more, "--config", server.config], { input: "secret" });
    assert.equal(added.status, 0, added.stderr.toString());
  }
  const login = { authorization: "Basic " + Buffer.from("anna:secret").toString("base64") };
  await waitUntil("the server knows the users", async () => (await fetch(server.origin + "/v1/senders", { headers: login })).status === 200);
  const sent = await server.mail("You have won <b>a prize</b>", GTUBE, "anna@people.example");
  assert.equal(sent.status, 0, sent.transcript);
  const read = () => spawnSync("curl", ["--silent", "--user", "anna:secret", `pop3://${server.binds.pop3}/1`]).stdout.toString();
  const [mail, found] = await waitUntil("the digest is in the mailbox", () => read().match(/^Release: http:\/\/gate\.people\.example(\S+)[^]*<\/html>/m));
  link = found;
  [, stopLink] = mail.match(/^Stop these digests: http:\/\/gate\.people\.example(\S+)/m);
  [digest] = mail.match(/<!doctype html>[^]*<\/html>/);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.remove();
});

const open = (path, options) => openPage(browser, server.origin + path, { extraHTTPHeaders: HEADERS, ...options });

test("a procedure is tried on stored messages, activated and undone", async () => {
  const { page, faults, close } = await open("/#procedures");
  await page.getByRole("button", { name: "/limit" }).click();
  const text = page.locator("#editor-text");
  await waitUntil("the editor shows the text in force", async () => (await text.inputValue()) === ACCEPTS);
  await text.fill(`return function(message)\n    return "rejct", message.subjct\nend\n`);
  await page.getByRole("button", { name: "Try on stored messages" }).click();
  await page.locator("#editor-status", { hasText: "The text has errors." }).waitFor();
  await page.getByRole("button", { name: "Line 2" }).first().click();
  assert.match(await text.evaluate((area) => area.value.slice(area.selectionStart, area.selectionEnd)), /rejct/);

  await text.fill(REFUSES);
  // A judged message is stored a moment later.
  const status = page.locator("#editor-status");
  await waitUntil("both messages are stored", async () => {
    await page.getByRole("button", { name: "Try on stored messages" }).click();
    await status.filter({ hasText: "No error." }).waitFor();
    return (await status.textContent()).includes("Of 2 stored messages, 1 would get another verdict.");
  });
  await page.locator("#editor-result tr", { hasText: "readings/oven" }).locator(".badge.reject").waitFor();
  await page.screenshot({ path: join(scratch, "procedure-trial.png"), animations: "disabled" });
  await page.getByRole("button", { name: "Activate" }).click();
  await page.locator("#editor-status", { hasText: "The text is in force." }).waitFor();
  assert.ok(await page.getByRole("button", { name: "Undo the last change" }).isEnabled(), "the text was not read again");
  const publish = () => fetch(server.origin + "/topics/readings/oven", { method: "POST", body: "hot", headers: HEADERS });
  assert.equal((await publish()).status, 422);
  await page.getByRole("button", { name: "Undo the last change" }).click();
  await page.locator("#editor-status", { hasText: "The text before the last change is in force." }).waitFor();
  assert.equal(await text.inputValue(), ACCEPTS);
  assert.equal((await publish()).status, 200);
  // A browser's own word for an answer of status 422 is no fault of the page.
  assert.deepEqual(faults.filter((fault) => !fault.includes("422")), []);
  await close();
});

test("a whole scope is tried on a stored and on a pasted message, with a changed text", async () => {
  const { page, faults, close } = await open("/#procedures");
  const status = page.locator("#trial-status");
  const result = page.locator("#trial-result");
  const attempt = () => page.getByRole("button", { name: "Try the scope" }).click();
  await page.locator("#trial-scope option", { hasText: "/mail" }).waitFor({ state: "attached" });
  await page.locator("#trial-scope").selectOption("/mail");
  await page.locator("#trial-text").fill("Subject: a trial\n\n" + GTUBE);
  await page.locator("#trial-sender").fill("eve@far.example");
  await page.locator("#trial-recipient").fill("anna@people.example");
  await attempt();
  await status.filter({ hasText: "Tried with the procedures in force." }).waitFor();
  await result.locator("tr", { hasText: "/sizecheck" }).locator(".badge.accept").waitFor();
  await result.locator("tr", { hasText: "/spamcheck" }).locator(".badge.quarantine").waitFor();
  await result.getByRole("row", { name: "GTUBE 1000.0" }).waitFor();

  await page.getByRole("button", { name: "/limit" }).click();
  const text = page.locator("#editor-text");
  await waitUntil("the editor shows the text in force", async () => (await text.inputValue()) === ACCEPTS);
  await text.fill(REFUSES);
  await page.locator("#trial-scope").selectOption("/readings");
  const option = page.locator("#trial-stored option", { hasText: "readings/oven" }).first();
  await page.locator("#trial-stored").selectOption(await option.getAttribute("value"));
  assert.ok(await page.locator("#trial-text").isHidden());
  await attempt();
  await status.filter({ hasText: "Tried with the text of /limit in the editor." }).waitFor();
  await result.locator("p", { hasText: "by /limit" }).locator(".badge.reject").waitFor();
  await page.screenshot({ path: join(scratch, "scope-trial.png"), animations: "disabled", fullPage: true });
  await text.fill("return function(");
  await attempt();
  await status.filter({ hasText: "The text in the editor has errors." }).waitFor();
  await text.fill(ACCEPTS);
  // Nothing of this was published, stored or activated.
  const { messages } = await (await fetch(server.origin + "/admin/quarantine", { headers: HEADERS })).json();
  assert.deepEqual(messages.filter(({ subject }) => subject === "a trial"), []);
  assert.deepEqual(faults, []);
  await close();
});

test("the log and the settings in force are searched", async () => {
  const { page, faults, close } = await open("/#server");
  await page.locator("#settings tr", { hasText: "quarantine_digest.every" }).locator("td", { hasText: "gatepost.toml:" }).waitFor();
  await page.locator("#settings-written").uncheck();
  await page.locator("#settings-search").fill("queue_max");
  await page.locator("#settings-search").press("Enter");
  await page.locator("#settings tr", { hasText: "procedures.queue_max" }).locator("p", { hasText: /^default$/ }).waitFor();
  await page.locator("#log-level").selectOption("info");
  await page.locator("#log-search").fill("digests");
  await page.locator("#log-search").press("Enter");
  await page.locator("#log-lines li", { hasText: "digests of the quarantine were sent" }).first().waitFor();
  assert.deepEqual(faults, []);
  await close();
});

test("the edge of a list behind which there is more has a shadow", async () => {
  const { page, close } = await openPage(browser, server.origin + "/#server", { extraHTTPHeaders: HEADERS, viewport: { width: 1280, height: 1400 } });
  await page.locator("#settings tr", { hasText: "quarantine_digest.every" }).waitFor();
  await page.locator("#settings-written").uncheck();
  await page.locator("#settings tr:nth-child(400)").waitFor({ state: "attached" });
  const list = page.locator(".scrolled:has(#settings)");
  await list.evaluate((list) => list.scrollIntoView({ block: "end" }));
  /** The last rows of pixels at the left edge, where no text is, after scrolling to `place`. */
  const edge = async (place) => {
    await list.evaluate((list, place) => list.scrollTo(0, place), place);
    const { x, y, height } = await list.boundingBox();
    return (await page.screenshot({ clip: { x, y: y + height - 8, width: 1, height: 8 } })).toString("base64");
  };
  const end = await edge(1e6);
  assert.notEqual(await edge(0), end);
  await page.screenshot({ path: join(scratch, "settings-all.png"), animations: "disabled" });
  assert.equal(await edge(1e6), end);
  await close();
});

test("a user who is no administrator sees the own pages", async () => {
  const { page, close } = await openPage(browser, server.origin + "/");
  await page.getByLabel("User", { exact: true }).fill("anna");
  await page.getByLabel("Password or token").fill("secret");
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("You are logged in as anna").waitFor();
  await page.screenshot({ path: join(scratch, "home.png"), animations: "disabled" });
  await page.getByRole("link", { name: "Senders" }).click();
  await page.locator("#user", { hasText: "anna" }).waitFor();
  await close();
});

test("these pages as people see them, in light and dark, wide and narrow, and axe finds nothing", async () => {
  // The digest is shown as by a mail program, from nowhere.
  const shown = "data:text/html;base64," + Buffer.from(digest).toString("base64");
  const pages = {
    server: ["/#server", "#settings tr >> nth=1"], procedures: ["/#procedures", "#procedure-list button"], release: [link, ".excerpt"],
    "digest-stop": [stopLink, "button"], "release-invalid": [link + "x", "[role=status]"], digest: [shown, "h2"],
  };
  for (const colorScheme of ["light", "dark"]) {
    for (const [width, options] of Object.entries(WIDTHS)) {
      for (const [name, [path, ready]] of Object.entries(pages)) {
        const { page, faults, close } = await openPage(browser, path === shown ? path : server.origin + path, { extraHTTPHeaders: HEADERS, ...options, colorScheme, bypassCSP: true });
        await page.locator(ready).first().waitFor();
        if (name === "procedures") await page.locator(ready).filter({ hasText: "/limit" }).click();
        await page.addScriptTag({ path: axe });
        const { violations } = await page.evaluate(() => window.axe.run());
        assert.deepEqual(violations.map(({ id, nodes }) => [name, width, id, nodes.map(({ html, failureSummary }) => [html, failureSummary])]), []);
        const overflow = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(overflow <= 0, `${name} is ${overflow} pixels too wide at ${width} width`);
        await page.screenshot({ path: join(scratch, `${name}-${width}-${colorScheme}.png`), animations: "disabled" });
        // A browser's own word for an answer of status 403 is no fault of the page.
        assert.deepEqual(faults.filter((fault) => name !== "release-invalid" || !fault.includes("403")), []);
        await close();
      }
    }
  }
});

test("a recipient who stopped the digests is listed, and gets them again", async () => {
  const { page: own, close: closeOwn } = await openPage(browser, server.origin + stopLink);
  await own.getByRole("button", { name: "Stop the digests" }).click();
  await own.getByRole("button", { name: "Send digests again" }).waitFor();
  const { page, faults, close } = await open("/#quarantine");
  await page.locator("#digests tr", { hasText: "anna" }).waitFor();
  await page.screenshot({ path: join(scratch, "digests-stopped.png"), animations: "disabled", fullPage: true });
  await page.getByRole("button", { name: "Send digests to anna again" }).click();
  await page.getByText("Digests are sent to anna again.").waitFor();
  // The list is read again after these words.
  await page.locator("#digests tr", { hasText: "anna" }).waitFor({ state: "detached" });
  await own.goto(server.origin + stopLink);
  await own.getByRole("button", { name: "Stop the digests" }).waitFor();
  assert.deepEqual(faults, []);
  await close();
  await closeOwn();
});

test("a mail is sent as an attachment to another recipient", async () => {
  const sent = await server.mail("To be forwarded", GTUBE, "anna@people.example");
  assert.equal(sent.status, 0, sent.transcript);
  const { page, faults, close } = await open("/#quarantine");
  await page.locator("#quarantine-list summary", { hasText: "To be forwarded" }).click();
  page.once("dialog", (dialog) => dialog.accept("root@people.example"));
  await page.getByRole("button", { name: "As attachment…" }).click();
  await page.locator("#quarantine-status", { hasText: "Released to" }).waitFor();
  const mail = () => spawnSync("curl", ["--silent", "--user", "root:secret", `pop3://${server.binds.pop3}/1`]).stdout.toString();
  const text = await waitUntil("the mail is in the other mailbox", () => mail().includes("To be forwarded") && mail());
  assert.match(text, /^Content-Type: message\/rfc822/im);
  assert.deepEqual(faults, []);
  await close();
});

test("a mail is released by its link, once", async () => {
  const { page, close } = await openPage(browser, server.origin + link);
  await page.getByRole("heading", { name: "You have won <b>a prize</b>" }).waitFor();
  assert.equal(await page.locator("h2 b").count(), 0);
  await page.getByRole("button", { name: "Release, and allow the sender from now on" }).click();
  await page.getByText("The message was released to anna@people.example.").waitFor();
  await page.goto(server.origin + link);
  await page.getByText("no longer in quarantine").waitFor();
  await close();
});
