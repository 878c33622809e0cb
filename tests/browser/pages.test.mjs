// A user's own pages in a real browser: many live values over one connection, resumed after the
// server was stopped; forms with and without JavaScript; a failed procedure's empty place.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { Server } from "./server.mjs";

const pictures = join(import.meta.dirname ?? ".", "../../target/browser");
// Only a fault waits so long.
const PATIENCE_MS = 20_000;

const FRAME = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{% block title %}{% endblock %}</title><body>{% block main %}{% endblock %}</body></html>`;
const rooms = ["hall", "attic", "cellar"];
const HOUSE = `{% extends "_frame.html" %}{% block title %}House{% endblock %}{% block main %}<h1>House</h1><dl>
${rooms.map((room) => `<dt>${room}</dt><dd id="${room}">{{ live("house/${room}") }}</dd>`).join("\n")}</dl>
<p id="broken">before {{ call("/broken") }} after</p>{% endblock %}`;
const BOOK = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Visitors</title><body><h1>Visitors</h1>
<form method="post">{{ form_publish("visitors/book") }}<label>Name <input name="payload"></label> <button>Sign</button></form>
<p>Last: <b id="last">{{ live("visitors/book") }}</b></p></body></html>`;
const LAMPS = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Lamps</title><body>
<p id="power">{{ live("lamps", "state.0.power") }}</p><p id="name">{{ live("lamps", "name") }}</p></body></html>`;
const CLIMATE = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Climate</title><body>
<h1 id="now">{{ live("climate/hall", "celsius") | number(1) }}</h1><p id="mode">{{ live("climate/mode") | trim | upper | default("no mode") }}</p>
<p id="at">{{ live("climate/hall", "at") | local_time }}</p><p id="fixed">{{ 784111777 | local_time("time") }}</p><p id="off">{{ live("climate/off") | round }}</p>
{{ live_chart("climate/hall", "celsius", 5) }}{{ live_list("climate/#", 4, "celsius") | round(1) }}</body></html>`;
const WALL = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Wall</title><body>
${Array.from({ length: 250 }, (_, number) => `<i id="s${number}">{{ live("wall/sensor/${number}") }}</i>`).join("\n")}</body></html>`;
const ASK = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Ask</title><body>
<form method="post">{{ form_call("/answer") }}<label>Question <input name="question" value="{{ request.form.question }}"></label> <button>Ask</button></form>
<p id="answer">{{ request.result.text }}</p><p id="refused">{{ request.result.reason }}</p></body></html>`;

let server;
let browser;

before(async () => {
  mkdirSync(pictures, { recursive: true });
  server = await Server.start(
    { "_frame.html": FRAME, "house.html": HOUSE, "book.html": BOOK, "lamps.html": LAMPS, "climate.html": CLIMATE, "wall.html": WALL, "ask.html": ASK },
    {
      "broken.luau": `return function() error("as meant") end\n`,
      "answer.luau": `return function(message, arguments)
        if arguments.question == "" then return "reject", "ask something" end
        return { text = "Why " .. arguments.question .. "?" }
      end\n`,
    },
  );
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-quic"] });
});

after(async () => {
  await browser?.close();
  await server?.remove();
});

async function open(path, options = {}) {
  const context = await browser.newContext({ viewport: { width: 800, height: 500 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  const streams = [];
  page.on("request", (request) => request.resourceType() === "eventsource" && streams.push(request.url()));
  await page.goto(server.origin + path);
  return { page, streams, close: () => context.close() };
}

test("all live values of a page share one stream, which goes on where it broke off", async () => {
  await server.publish("house/hall", "19.0");
  const { page, streams, close } = await open("/house");
  await page.evaluate(() => (window.mark = "not reloaded"));
  await page.locator("#hall", { hasText: "19.0" }).waitFor();
  for (const [number, room] of rooms.entries()) await server.publish(`house/${room}`, `2${number}.5 <b>`);
  for (const [number, room] of rooms.entries()) await page.locator(`#${room}`, { hasText: `2${number}.5 <b>` }).waitFor();
  assert.equal(streams.length, 1, streams.join("\n"));
  assert.match(await page.locator("#broken").innerHTML(), /^before <!-- gatepost error \S+ --> after$/);
  await page.screenshot({ path: join(pictures, "page-live.png") });

  await server.stop();
  await server.run();
  await server.publish("house/attic", "30.0");
  await page.locator("#attic", { hasText: "30.0" }).waitFor();
  assert.equal(await page.evaluate(() => window.mark), "not reloaded");
  await close();
});

test("a live value may be one of a JSON payload", async () => {
  await server.publish("lamps", JSON.stringify({ name: "<b>hall</b>", state: [{ power: 20.0 }] }));
  const { page, close } = await open("/lamps");
  assert.equal(await page.locator("#power").textContent(), "20");
  assert.equal(await page.locator("#name").textContent(), "<b>hall</b>");
  await server.publish("lamps", JSON.stringify({ name: { length: 1 }, state: [{ power: 21.5 }] }));
  await page.locator("#power", { hasText: "21.5" }).waitFor();
  assert.equal(await page.locator("#name").textContent(), '{"length":1}');
  await server.publish("lamps", "no JSON");
  await page.locator("#power").filter({ hasText: /^$/ }).waitFor({ state: "attached" });
  await close();
});

test("lists grow, charts go on, filters and the visitor's zone hold in the browser too", async () => {
  const reading = (celsius) => server.publish("climate/hall", JSON.stringify({ celsius, at: "2026-01-31T23:30:00Z" }));
  await reading(1019.25);
  await server.publish("climate/off", "off");
  const { page, streams, close } = await open("/climate", { locale: "de-DE", timezoneId: "Europe/Berlin" });
  await page.locator("#now", { hasText: "1.019,3" }).waitFor();
  await page.locator("#at", { hasText: "01.02.2026, 00:30:00" }).waitFor();
  await page.locator("#fixed", { hasText: "09:49:37" }).waitFor();
  await page.locator("#mode", { hasText: "no mode" }).waitFor();
  assert.equal(await page.locator("#off").textContent(), "off");
  for (const celsius of [20.04, 30, 25]) await reading(celsius);
  await page.locator("#now", { hasText: /^25,0$/ }).waitFor();
  await server.publish("climate/mode", " <img src=x onerror=alert(1)> ");
  await page.locator("#mode", { hasText: "<IMG SRC=X ONERROR=ALERT(1)>" }).waitFor();
  await server.publish("climate/attic", JSON.stringify({ celsius: "<i>" }));
  await page.locator(".gatepost-list .value", { hasText: "<i>" }).waitFor();
  assert.equal(await page.locator("img, i").count(), 0);

  // Four entries, the newest first; the payload that is no JSON has no value.
  assert.deepEqual(await page.locator(".gatepost-list .value").allTextContents(), ["<i>", "", "25", "30"]);
  assert.deepEqual(await page.locator(".gatepost-list .topic").allTextContents(), ["climate/attic", "climate/mode", "climate/hall", "climate/hall"]);
  const chart = page.locator(".gatepost-chart");
  await page.locator(".gatepost-chart[aria-label^='climate/hall, celsius: 25,']").waitFor();
  assert.equal((await chart.locator("polyline").getAttribute("points")).split(" ").length, 4);
  await chart.hover({ position: { x: 3, y: 60 } });
  await chart.locator("text", { hasText: /: 1\.019,25$/ }).waitFor();
  for (const celsius of [1, 2, 3]) await reading(celsius);
  await page.locator(".gatepost-chart[aria-label^='climate/hall, celsius: 3,']").waitFor();
  assert.equal((await chart.locator("polyline").getAttribute("points")).split(" ").length, 5);
  assert.equal(streams.length, 1, streams.join("\n"));
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await page.screenshot({ path: join(pictures, `page-climate-${colorScheme}.png`) });
  }
  await close();
});

/** Opens the page of the house, whose event streams `answer` answers. */
async function openHouse(answer) {
  const context = await browser.newContext();
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  await page.route("**/topics?*", (route) => {
    if (route.request().resourceType() !== "eventsource") return route.continue();
    return answer(route);
  });
  await page.goto(server.origin + "/house");
  return { page, close: () => context.close() };
}

/** A whole stream, after which the browser does not ask again. */
const streamOf = (...events) => ({ contentType: "text/event-stream", body: ["retry: 10000000", ...events, ""].join("\n\n") });

test("a page goes on after a proxy has answered for the server", async () => {
  let refusals = 0;
  let isUp = false;
  const { page, close } = await openHouse((route) => {
    if (isUp) return route.continue();
    refusals += 1;
    return route.fulfill({ status: 502, body: "Bad Gateway" });
  });
  await page.waitForFunction(() => document.readyState === "complete");
  while (refusals === 0) await page.waitForTimeout(50);
  isUp = true;
  await server.publish("house/hall", "17.5");
  await page.locator("#hall", { hasText: "17.5" }).waitFor();
  await close();
});

test("of two messages of which one overtook the other, the one that was published last stays", async () => {
  await server.publish("house/hall", "1.0");
  const event = (position, id, payload) => `id: ${position}\ndata: ${JSON.stringify({ id, payload, topic: "house/hall", unix_ms: 1 })}`;
  const { page, close } = await openHouse((route) => {
    // Later than all positions of this server.
    const [earlier, overtaken] = [event("zz2", "zz2", "2.0"), event("zz3", "zz1", "3.0")];
    return route.fulfill(streamOf(earlier, overtaken, earlier));
  });
  await page.locator("#hall", { hasText: "3.0" }).waitFor();
  await close();
});

test("after a gap, the latest values are read", async () => {
  await server.publish("house/attic", "4.0");
  const { page, close } = await openHouse(async (route) => {
    await server.publish("house/attic", "5.0");
    return route.fulfill(streamOf(`event: gap\ndata: {"missed":1}`));
  });
  await page.locator("#attic", { hasText: "5.0" }).waitFor();
  await close();
});

test("a page may have more live topics than one address names", async () => {
  const { page, streams, close } = await open("/wall");
  for (const number of [0, 120, 249]) {
    await server.publish(`wall/sensor/${number}`, `<${number}>`);
    await page.locator(`#s${number}`, { hasText: `<${number}>` }).waitFor();
  }
  assert.equal(streams.length, 3, streams.join("\n"));
  await close();
});

for (const javaScriptEnabled of [true, false]) {
  const how = javaScriptEnabled ? "with" : "without";
  test(`forms publish and call ${how} JavaScript, and a reload sends nothing again`, async () => {
    const { page, close } = await open("/book", { javaScriptEnabled });
    await page.getByLabel("Name").fill(`Anna ${how}`);
    await page.getByRole("button").click();
    await page.locator("#last", { hasText: `Anna ${how}` }).waitFor();
    const before = await (await fetch(`${server.origin}/topics/visitors/book`)).json();
    await page.reload();
    const behind = await (await fetch(`${server.origin}/topics/visitors/book`)).json();
    assert.equal(behind.length, before.length);
    await page.screenshot({ path: join(pictures, `page-form-${how}.png`) });

    await page.goto(`${server.origin}/ask`);
    await page.getByRole("button").click();
    await page.locator("#refused", { hasText: "ask something" }).waitFor();
    await page.getByLabel("Question").fill("not");
    await page.getByRole("button").click();
    await page.locator("#answer", { hasText: "Why not?" }).waitFor();
    assert.equal(await page.getByLabel("Question").inputValue(), "not");
    await close();
  });
}

test("a form that another site sends is refused", async () => {
  const { page, close } = await open("/book");
  const field = await page.locator("input[name=gatepost-form]").inputValue();
  // A page of another origin in the same browser: the cookie stays behind, and the origin is sent.
  await page.goto(`data:text/html,<form method=post action="${server.origin}/book"><input name=gatepost-form value="${field}"><input name=payload value=stolen><button>x</button></form>`);
  await Promise.all([page.waitForURL(`${server.origin}/book`), page.getByRole("button").click()]);
  assert.match(await page.locator("body").innerText(), /refused/i);
  const kept = await (await fetch(`${server.origin}/topics/visitors/book`)).json();
  assert.ok(!kept.some((message) => message.payload === "stolen"));
  await close();
});
