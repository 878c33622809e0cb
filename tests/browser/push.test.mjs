// The page on which users subscribe to notifications. The browser has no push service, so the functions
// for subscriptions are replaced, and the browser's debugger delivers the push messages.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout } from "node:timers/promises";
import { chromium } from "playwright-core";
import { Server } from "./server.mjs";

// Only a fault waits so long.
const PATIENCE_MS = 60_000;

let server;
let browser;

before(async () => {
  server = await Server.start({}, {}, [`web_push.contact = "mailto:root@example.org"`]);
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-quic"] });
});

after(async () => {
  await browser?.close();
  await server?.remove();
});

/** Opens the page; the scripts' faults and what the content policy refuses end in `faults`. */
async function open(prepare) {
  const context = await browser.newContext();
  await context.grantPermissions(["notifications"], { origin: server.origin });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const faults = [];
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(String(error)));
  if (prepare) await page.addInitScript(prepare);
  await page.goto(server.origin + "/push");
  return { context, page, faults };
}

/** What a push service would give the browser: an endpoint and keys. */
function withPushService() {
  let made = null;
  const text = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  PushManager.prototype.getSubscription = async () => made;
  PushManager.prototype.subscribe = async ({ applicationServerKey }) => {
    const pair = await crypto.subtle.generateKey({ name: "ECDH", namedCurve: "P-256" }, true, ["deriveBits"]);
    const keys = { p256dh: text(await crypto.subtle.exportKey("raw", pair.publicKey)), auth: text(crypto.getRandomValues(new Uint8Array(16))) };
    const endpoint = "https://push.invalid/endpoint";
    const key = Uint8Array.from(atob(applicationServerKey.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
    return (made = { endpoint, options: { applicationServerKey: key.buffer }, toJSON: () => ({ endpoint, expirationTime: null, keys }), unsubscribe: async () => ((made = null), true) });
  };
}

test("the page can be installed, and its worker shows a pushed message", async () => {
  const { context, page, faults } = await open();
  await page.waitForSelector("#subscription:not([hidden])");
  const session = await context.newCDPSession(page);
  const manifest = await session.send("Page.getAppManifest");
  assert.deepEqual(manifest.errors, []);
  assert.equal(JSON.parse(manifest.data).start_url, "/push");
  const { installabilityErrors } = await session.send("Page.getInstallabilityErrors");
  const real = installabilityErrors.filter(({ errorId }) => errorId !== "in-incognito");
  assert.deepEqual(real, []);
  const registration = new Promise((resolve) =>
    session.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => registrations[0] && resolve(registrations[0])),
  );
  await session.send("ServiceWorker.enable");
  const { registrationId, scopeURL } = await registration;
  assert.equal(scopeURL, `${server.origin}/push`);
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  const push = (message) => session.send("ServiceWorker.deliverPushMessage", { origin: server.origin, registrationId, data: typeof message === "string" ? message : JSON.stringify(message) });
  const fire = { id: "1", time: 1_790_000_000, topic: "alarms/fire", title: "Hall", message: "smoke", priority: 5, tags: ["fire"], click: "https://example.org/", actions: [{ id: "1", action: "view", label: "See", url: "https://x.example" }, { id: "2", action: "copy", label: "Copy", value: "1" }] };
  const displayed = () => page.evaluate(async () => (await (await navigator.serviceWorker.ready).getNotifications()).map(({ title, body, data, requireInteraction, actions }) => ({ title, body, data, requireInteraction, buttons: actions.map((one) => one.title) })));
  // Chromium forgets a notification that is listed before it is on the screen, so the message is pushed again.
  const deadline = Date.now() + PATIENCE_MS;
  let all = [];
  while (all.length === 0 && Date.now() < deadline) {
    await push(fire);
    await setTimeout(200);
    all = await displayed();
  }
  assert.deepEqual(all, [{ title: "Hall", body: "smoke\n(fire)", data: { click: "https://example.org/", actions: [fire.actions[0]] }, requireInteraction: true, buttons: ["See"] }]);
  assert.deepEqual(faults, []);
  await context.close();
});

test("the worker replaces and removes the messages of a sequence, in the order of their pushes", async () => {
  const { context, page, faults } = await open();
  await page.waitForSelector("#subscription:not([hidden])");
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));
  const shown = await context.serviceWorkers()[0].evaluate(async () => {
    // A list in place of the screen, whose first entry takes the longest to appear.
    const screen = new Map();
    let delay_ms = 50;
    self.registration.showNotification = async (title, { tag, body }) => {
      await new Promise((resolve) => setTimeout(resolve, (delay_ms = Math.max(0, delay_ms - 25))));
      screen.set(tag, { title, body });
    };
    self.registration.getNotifications = async ({ tag }) => (screen.has(tag) ? [{ close: () => screen.delete(tag) }] : []);
    const push = (data) => self.dispatchEvent(new PushEvent("push", { data }));
    push(JSON.stringify({ id: "2", topic: "door", message: "open", sequence_id: "7" }));
    push(JSON.stringify({ id: "3", topic: "door", message: "closed", sequence_id: "7" }));
    push(JSON.stringify({ id: "4", topic: "door", message: "gone" }));
    push(JSON.stringify({ id: "5", event: "message_delete", topic: "door", sequence_id: "4" }));
    push("no JSON");
    await earlier;
    return [...screen.values()];
  });
  assert.deepEqual(shown, [{ title: "door", body: "closed" }, { title: "Gatepost", body: "" }]);
  assert.deepEqual(faults, []);
  await context.close();
});

test("a user chooses topics, changes them, and stops", async () => {
  const { context, page, faults } = await open(withPushService);
  const subscriptions = async () => (await (await fetch(`${server.origin}/v1/webpush`)).json()).subscriptions;
  const said = (words) => page.waitForFunction(([id, text]) => document.getElementById(id).textContent.includes(text), ["done", words]);
  await page.fill("#topics", "alarms/#\n\n door \n");
  await page.click("#subscribe");
  await said("Saved.");
  assert.deepEqual((await subscriptions()).map(({ topics }) => topics), [["alarms/#", "door"]]);
  assert.match(await page.textContent("#state"), /https:\/\/push\.invalid/);
  await page.fill("#topics", "a/#/b");
  await page.click("#subscribe");
  await page.waitForSelector("#done.wrong");
  await page.fill("#topics", "door");
  await page.click("#subscribe");
  await said("Saved.");
  assert.deepEqual((await subscriptions()).map(({ topics }) => topics), [["door"]]);
  await page.click("#unsubscribe");
  await said("Stopped.");
  assert.deepEqual(await subscriptions(), []);
  // The refused topic is the only fault: the browser logs every 400.
  assert.deepEqual(faults.filter((fault) => !fault.includes("400")), []);
  await context.close();
});

test("the page lists the latest messages, and carries out their buttons", async () => {
  const { context, page, faults } = await open(withPushService);
  const publish = (path, fields = {}, body = "x", method = "POST") => fetch(server.origin + path, { method, headers: fields, body });
  await page.fill("#topics", "door");
  await page.click("#subscribe");
  await page.waitForSelector("#latest:not([hidden])");
  const actions = `http, Answer, ${server.origin}/answers, headers.Title=pressed, body=open, clear=true; http, Reload, ${server.origin}/admin/reload; http, Escaped, ${server.origin}/%61dmin/reload`;
  await publish("/door", { Title: "Bell", Actions: actions }, "the bell rings");
  await publish("/door/state", {}, "closed");
  await publish("/door/state", {}, "open");
  await publish("/door/gone", {}, "never mind");
  await publish("/door/gone", {}, undefined, "DELETE");
  const rows = () => page.$$eval("#messages li", (all) => all.map((row) => row.querySelector("p").textContent));
  await page.waitForFunction(() => {
    const texts = [...document.querySelectorAll("#messages li p:not(.actions)")].map((one) => one.textContent);
    return texts.join() === "open,the bell rings";
  });
  const said = (words) => page.waitForFunction((text) => document.getElementById("acted").textContent === text, words);
  await page.click("text=Reload");
  await said("Reload: failed");
  await page.click("text=Escaped");
  await said("Escaped: failed");
  await page.click("text=Answer");
  await said("Answer: done");
  assert.deepEqual(await rows(), ["open"]);
  const [answer] = await (await fetch(`${server.origin}/topics/answers?data=ntfy`)).json();
  assert.deepEqual([answer.title, answer.message], ["pressed", "open"]);
  assert.deepEqual(faults, []);
  await context.close();
});
