// Two nodes over a nats-server: the dashboard of one shows the messages and the quarantine of both, also
// when the other one is gone, and says when a part of the quarantine may be missing.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, openPage, waitUntil } from "./browser.mjs";
import { Server } from "./server.mjs";

const scratch = join(import.meta.dirname ?? ".", "../../target/browser");
let folder;
let nats;
let natsEnded;
let nodes;
let browser;

const freePort = () => new Promise((resolve) => {
  const listener = createServer().listen(0, "127.0.0.1", () => {
    const { port } = listener.address();
    listener.close(() => resolve(port));
  });
});

before(async () => {
  mkdirSync(scratch, { recursive: true });
  folder = await mkdtemp(join(tmpdir(), "gatepost-nats-"));
  const port = await freePort();
  await writeFile(join(folder, "nats.conf"), `listen: "127.0.0.1:${port}"\njetstream { store_dir: "${folder}/jetstream", sync_interval: always }\n`);
  nats = spawn("nats-server", ["--config", join(folder, "nats.conf")], { stdio: "ignore" });
  natsEnded = new Promise((resolve) => nats.once("exit", resolve));
  const settings = (node) => [`node = ${node}`, `backbone.nats = ["nats://127.0.0.1:${port}"]`, "backbone.replicas = 1", "rules.paths = []"];
  nodes = [];
  for (const node of [1, 2]) nodes.push(await Server.start({}, {}, settings(node)));
  browser = await launch();
  for (const node of nodes) {
    await waitUntil("both nodes answer", async () => {
      const answer = await fetch(`${node.origin}/admin/messages?node=${nodes.indexOf(node) ? 1 : 2}`);
      return answer.ok;
    });
  }
});

after(async () => {
  await browser?.close();
  for (const node of nodes ?? []) await node.remove();
  nats?.kill();
  if (folder) await rm(folder, { recursive: true, force: true });
});

test("a search finds the messages of all nodes, and a story comes from the node that has it", async () => {
  const [one, two] = nodes;
  await one.publish("kept/here", "1");
  await two.publish("kept/there", "2");
  await one.mail("mail here", "1");
  await two.mail("mail there", "2");
  const { page, close } = await openPage(browser, one.origin + "/");
  await page.locator("#link", { hasText: "Live" }).waitFor();
  await page.locator("#recent-node", { hasText: "Of this node, 1." }).waitFor();
  const rows = page.locator("#found details");
  await waitUntil("both nodes have answered", async () => {
    await page.locator("#filters button[type=submit]").click();
    await page.locator("#found-status", { hasText: /all that match|did not answer/ }).waitFor();
    return (await rows.count()) === 4;
  });
  assert.match(await rows.nth(0).textContent(), /mail there.* node 2/s);
  assert.match(await rows.nth(1).textContent(), /mail here.* node 1/s);
  assert.match(await rows.nth(2).textContent(), /kept\/there.* node 2/s);
  assert.match(await rows.nth(3).textContent(), /kept\/here.* node 1/s);
  await rows.nth(0).locator("summary").click();
  await rows.nth(0).locator(".story dt", { hasText: "Node" }).waitFor();
  await page.screenshot({ path: join(scratch, "cluster-search.png"), animations: "disabled" });
  await page.locator("#node").selectOption("1");
  await page.locator("#filters button[type=submit]").click();
  // It has the entries of all messages that were put into quarantine.
  await waitUntil("one node is shown", async () => (await rows.count()) === 3);
  assert.match(await rows.nth(0).textContent(), /mail here.* node 1/s);
  await close();
});

test("the quarantine of all nodes is one list, also when a node is gone", async () => {
  const [one, two] = nodes;
  const { page, close } = await openPage(browser, one.origin + "/#quarantine");
  const row = (topic) => page.locator("#quarantine-list details", { hasText: topic });
  const shown = async (topic) => {
    await page.locator("#find-quarantine button[type=submit]").click();
    return row(topic).waitFor({ timeout: 2_000 }).then(() => true, () => false);
  };
  await two.publish("kept/later", "3");
  await waitUntil("messages of node 2 are there", async () => (await shown("kept/there")) && shown("kept/later"));
  await row("kept/there").locator("summary").click();
  await row("kept/there").locator("button", { hasText: "Show source" }).click();
  await row("kept/there").locator("pre", { hasText: "2" }).waitFor();
  await row("kept/there").locator("button.main").click();
  await page.locator("#quarantine-status", { hasText: "Released to" }).waitFor();
  await row("kept/there").waitFor({ state: "detached" });
  await row("kept/here").waitFor();
  two.process.kill("SIGKILL");
  await two.ended;
  await page.locator("#quarantine-node").selectOption("2");
  await row("kept/here").waitFor({ state: "detached" });
  await row("kept/later").locator("summary").click();
  await row("kept/later").locator("button", { hasText: "Show source" }).click();
  await row("kept/later").locator("pre", { hasText: "3" }).waitFor();
  assert.equal(await page.locator("#quarantine-missing").textContent(), "");
  nats.kill();
  await natsEnded;
  await page.locator("#quarantine-node").selectOption("");
  await waitUntil("the node notices the loss", async () => {
    await page.locator("#find-quarantine button[type=submit]").click();
    const missing = page.locator("#quarantine-missing", { hasText: "this node is not part of its cluster" });
    return missing.waitFor({ timeout: 2_000 }).then(() => true, () => false);
  });
  await row("kept/here").waitFor();
  await row("kept/later").waitFor();
  await page.screenshot({ path: join(scratch, "cluster-quarantine.png"), animations: "disabled" });
  await close();
});
