// The login page in a real browser: a browser without a login gets it, returns to where it was going,
// and gets it again after a logout or when its session has ended.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch, openPage } from "./browser.mjs";
import { Server } from "./server.mjs";

const scratch = join(import.meta.dirname ?? ".", "../../target/browser");
const axe = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const WIDTHS = { wide: { viewport: { width: 1280, height: 900 } }, tablet: { viewport: { width: 768, height: 1024 } }, phone: { viewport: { width: 390, height: 844 } } };
const basic = (name, password) => ({ authorization: "Basic " + Buffer.from(`${name}:${password}`).toString("base64") });
const root = basic("root", "secret");

let server;
let browser;

before(async () => {
  mkdirSync(scratch, { recursive: true });
  server = await Server.start({
    "mine.html": `<!doctype html><html lang="en"><title>Mine</title><body><p id="user">{{ request.user }}</p></body></html>`,
  });
  const add = (body, headers) => fetch(server.origin + "/admin/users", { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json", ...headers } });
  assert.equal((await add({ name: "root", password: "secret", admin: true })).status, 201);
  assert.equal((await add({ name: "anna", password: "others" }, root)).status, 201);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await server?.remove();
});

const open = (path, options) => openPage(browser, server.origin + path, options);
/** A browser's own words for an answer of status 401 or 403 are no fault of the page. */
const serious = (faults) => faults.filter((fault) => !/40[13]/.test(fault));

async function enter(page, name, password) {
  await page.getByLabel("User").fill(name);
  await page.getByLabel("Password or token").fill(password);
  await page.getByRole("button", { name: "Log in" }).click();
}

test("one logs in, returns to the same place, and logs out", async () => {
  const { page, faults, close } = await open("/#rules");
  await page.waitForURL(/\/gatepost\/login\?next=/);
  await enter(page, "root", "wrong");
  await page.getByRole("alert").filter({ hasText: "The name or the password is wrong." }).waitFor();
  assert.equal(await page.getByLabel("User").inputValue(), "root");
  await enter(page, "root", "secret");
  await page.waitForURL(server.origin + "/#rules");
  await page.locator("#link", { hasText: "Live" }).waitFor();
  await page.locator("#user", { hasText: "root" }).waitFor();
  await page.locator("#view-rules").waitFor();

  // What changes something works by the cookie.
  await page.locator('nav a[href="#explorer"]').click();
  await page.locator("#publish-topic").fill("hall/door");
  await page.locator("#publish-payload").fill("open");
  await page.getByRole("button", { name: "Publish", exact: true }).click();
  await page.locator("#topics-status", { hasText: "Published to hall/door" }).waitFor();
  // A script cannot read it.
  assert.ok(!(await page.evaluate(() => document.cookie)).includes("gatepost"));
  // A browser that is logged in sees no form.
  await page.goto(server.origin + "/gatepost/login");
  await page.getByText("You are logged in as root.").waitFor();
  await page.getByRole("link", { name: "Continue" }).click();

  const other = await page.context().newPage();
  await other.goto(server.origin + "/");
  await other.locator("#link", { hasText: "Live" }).waitFor();
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("Password or token").waitFor();
  // The stream of the other tab ends, and the tab leads to the login page too.
  await other.waitForURL(/\/gatepost\/login\?next=/);
  assert.deepEqual(serious(faults), []);
  await close();
});

test("a page of the operator's own knows the user, and MQTT over WebSocket needs no other login", async () => {
  const { page, close } = await open("/gatepost/login?next=/mine");
  await enter(page, "anna", "others");
  await page.locator("#user", { hasText: "anna" }).waitFor();
  // A CONNECT of MQTT 3.1.1 without a user; the answer's last byte is its code.
  const code = await page.evaluate(() => new Promise((resolve, reject) => {
    const socket = new WebSocket(`ws://${location.host}/mqtt`, "mqtt");
    socket.binaryType = "arraybuffer";
    const connect = [0x10, 13, 0, 4, 0x4d, 0x51, 0x54, 0x54, 4, 2, 0, 60, 0, 1, 0x77];
    socket.onopen = () => socket.send(new Uint8Array(connect));
    socket.onmessage = ({ data }) => resolve(new Uint8Array(data)[3]);
    socket.onclose = () => reject(new Error("closed"));
  }));
  assert.equal(code, 0);
  // No administrator: the dashboard says so and offers another login.
  await page.goto(server.origin + "/");
  await page.getByRole("link", { name: "Log in as another user" }).click();
  await page.getByText("You are logged in as anna.").waitFor();
  await close();
});

test("a link from another site leads a browser that is logged in to its page", async () => {
  const elsewhere = createServer((_, answer) => answer.setHeader("content-type", "text/html").end(`<a href="${server.origin}/mine">Mine</a><form method="post" action="${server.origin}/gatepost/logout"><button>Win</button></form>`));
  await new Promise((resolve) => elsewhere.listen(0, "127.0.0.1", resolve));
  const { page, close } = await open("/gatepost/login?next=/");
  await enter(page, "root", "secret");
  await page.locator("#link", { hasText: "Live" }).waitFor();
  // Another host is another site, another port is not.
  const place = `http://localhost:${elsewhere.address().port}/`;
  await page.goto(place);
  await page.evaluate((url) => document.querySelector("a").setAttribute("href", url), server.origin + "/#access");
  await page.getByRole("link").click();
  await page.locator("#link", { hasText: "Live" }).waitFor();
  await page.goto(place);
  await page.getByRole("button").click();
  await page.getByText("refused to a page of another origin").waitFor();
  await page.goto(server.origin + "/");
  await page.locator("#user", { hasText: "root" }).waitFor();
  await close();
  elsewhere.close();
});

test("an open dashboard leads to the login page when its user gets another password", async () => {
  const { page, close } = await open("/gatepost/login?next=/");
  await enter(page, "root", "secret");
  await page.locator("#link", { hasText: "Live" }).waitFor();
  const changed = await fetch(server.origin + "/admin/users/root", { method: "PATCH", body: JSON.stringify({ password: "secret" }), headers: { "content-type": "application/json", ...root } });
  assert.ok(changed.ok, `${changed.status} ${await changed.text()}`);
  await page.waitForURL(/\/gatepost\/login\?next=/);
  await enter(page, "root", "secret");
  await page.locator("#link", { hasText: "Live" }).waitFor();
  await close();
});

test("the login page fits every width in both schemes, and axe finds nothing", async () => {
  for (const [width, options] of Object.entries(WIDTHS)) {
    for (const colorScheme of ["light", "dark"]) {
      const { page, faults, close } = await open("/gatepost/login?next=/", { ...options, colorScheme, bypassCSP: true });
      await page.getByLabel("User").waitFor();
      await page.screenshot({ path: join(scratch, `login-${width}-${colorScheme}.png`), animations: "disabled" });
      await enter(page, "root", "wrong");
      await page.getByRole("alert").waitFor();
      await page.addScriptTag({ path: axe });
      const { violations } = await page.evaluate(() => axe.run(document));
      assert.deepEqual(violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`), []);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
      await page.screenshot({ path: join(scratch, `login-refused-${width}-${colorScheme}.png`), animations: "disabled" });
      await enter(page, "root", "secret");
      await page.locator("#logout").waitFor();
      await page.locator("#link", { hasText: "Live" }).waitFor();
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `the dashboard at ${width}`);
      await page.screenshot({ path: join(scratch, `logged-in-${width}-${colorScheme}.png`), animations: "disabled" });
      assert.deepEqual(serious(faults), []);
      await close();
    }
  }
});
