// The topics as a tree, updated while it is visible: the latest value of each, its rate, and a form
// to publish. One event stream begins with the latest message of every topic.

import { $, ask, button, bytes, cell, drawIn, element, linked, number, plural, rate, request, say, table, when } from "./page.js";

const STATUS = "topics-status";
/** The maximum number of topics; a narrower filter shows the others. */
const TOPICS_MAX = 2_000;
const DRAW_EVERY_MS = 250;
/** The pause before a stream that was refused is requested again. */
const AGAIN_MS = 2_000;
/** The time over which a rate is measured. */
const RATE_SECONDS = 5;
const HISTORY_COUNT = 20;
const SUBSCRIBERS_COUNT = 50;
const PREVIEW_CHARACTERS = 120;

let source = null;
let leftOut = 0;
/** The server's time from which messages count for the rate: earlier ones are replayed. */
let began = Infinity;
let drawing = false;
let root = node("", "");
/** The nodes whose line must be redrawn. */
const changed = new Set();
/** New levels that must be inserted, each with its parent. */
let placed = [];

/** A level of the tree; `topic` is its full name. */
function node(name, topic) {
  return { name, topic, children: new Map(), latest: null, times: [], row: null, line: null, value: null, facts: null };
}

const pathOf = (topic) => "/topics/" + topic.split("/").map(encodeURIComponent).join("/");
const textOf = (message) => message.payload ?? `${bytes(Math.floor((message.payload_base64.length * 3) / 4))} of binary data`;

// --- The tree ------------------------------------------------------------------------------------

let topics = 0;

function nodeOf(topic) {
  let at = root;
  for (const [depth, name] of topic.split("/").entries()) {
    let child = at.children.get(name);
    if (!child) {
      if (topics >= TOPICS_MAX) return null;
      child = node(name, topic.split("/").slice(0, depth + 1).join("/"));
      at.children.set(name, child);
      place(at, child);
      topics += 1;
    }
    at = child;
  }
  return at;
}

/** Makes a new level, which the next drawing inserts. */
function place(parent, child) {
  // If a part of the line is replaced between press and release, the browser reports no click: so
  // the parts are kept, and only their text changes.
  child.value = element("span", { class: "value", dir: "auto" });
  child.facts = element("span", { class: "quiet" });
  child.line = element("summary", {}, element("b", { class: "mono", dir: "auto" }, child.name || "(empty)"), child.value, child.facts);
  child.detail = element("div", { class: "topic-detail" });
  child.list = element("ul", {});
  child.row = element("li", { "data-name": child.name }, element("details", {}, child.line, child.detail, child.list));
  child.row.firstChild.addEventListener("toggle", () => child.row.firstChild.open && child.latest && showDetail(child));
  placed.push([parent, child]);
  drawLine(child);
  changed.add(parent);
}

/** Puts new levels among their neighbours, in the order of the alphabet. */
function putIn() {
  for (const [parent, child] of placed.splice(0)) {
    const list = parent === root ? $("topic-tree") : parent.list;
    const after = [...list.children].find((other) => other.dataset.name > child.name);
    list.insertBefore(child.row, after ?? null);
  }
}

function came(message) {
  const at = nodeOf(message.topic);
  if (!at) {
    leftOut += 1;
    return;
  }
  at.latest = message;
  if (message.unix_ms >= began) at.times.push(Date.now());
  changed.add(at);
}

function draw() {
  if (drawing) return;
  drawing = true;
  setTimeout(() => {
    drawing = false;
    drawIn($("topic-tree"), putIn);
    for (const one of changed) if (one !== root) drawLine(one);
    changed.clear();
    $("topics-found").textContent = (topics ? `${number(topics)} levels and topics` : "") + (leftOut ? `; ${plural(leftOut, "message")} of more topics omitted: use a narrower filter` : "");
    $("no-topics").hidden = topics > 0;
  }, DRAW_EVERY_MS);
}

function drawLine(one) {
  const from = Date.now() - RATE_SECONDS * 1000;
  one.times = one.times.filter((time) => time > from);
  const { latest, children } = one;
  one.value.textContent = latest ? textOf(latest).slice(0, PREVIEW_CHARACTERS) : "";
  one.facts.textContent = [latest?.retain ? "retained" : "", children.size ? plural(children.size, "topic") + " below" : "", one.times.length ? `${rate(one.times.length / RATE_SECONDS)} a second` : "", latest ? when(latest.unix_ms) : ""].filter(Boolean).join(", ");
  // A decreasing rate is redrawn as well.
  if (one.times.length) setTimeout(() => { changed.add(one); draw(); }, RATE_SECONDS * 1000);
}

/** The clients that a publication on the topic would reach, each linked to its session. */
function subscribersOf(topic, { subscribers, total, readers }) {
  const more = [total > subscribers.length ? `${number(total - subscribers.length)} more` : "", readers ? plural(readers, "event stream or sink", "event streams and sinks") : ""].filter(Boolean);
  const rows = subscribers.map(({ client, user, connected, filters }) => [
    cell(linked("session", client)), cell(user ?? "no login"), cell(element("span", { class: "mono", dir: "auto" }, filters.join(", "))), cell(connected ? "connected" : "not connected")]);
  return element("section", { class: "subscribers", "aria-label": `Subscribers of ${topic}` },
    element("h3", {}, total || readers ? "Subscribers" : "No subscriber"),
    rows.length ? table(`Subscribers of ${topic}`, [["Client"], ["User"], ["Filters"], [""]], rows) : null,
    more.length ? element("p", { class: "quiet" }, (rows.length ? "and " : "") + more.join(", ")) : null);
}

/** The last messages of a topic, and its subscribers. */
async function showDetail(one) {
  const messages = await ask(STATUS, "GET", `${pathOf(one.topic)}?count=${HISTORY_COUNT}`);
  const found = await ask(STATUS, "GET", "/admin/subscribers?" + new URLSearchParams({ topic: one.topic, count: SUBSCRIBERS_COUNT }));
  if (!messages || !found) return;
  const rows = [...messages].reverse().map((message) => [
    cell(when(message.unix_ms)), cell(element("span", { class: "payload", dir: "auto" }, textOf(message))), cell(message.retain ? "retained" : "")]);
  one.detail.replaceChildren(
    element("div", { class: "actions" },
      button("Publish here…", async () => { $("publish-topic").value = one.topic; $("publish-payload").focus(); }),
      one.latest?.retain ? button("Clear retained", () => clear(one), { class: "danger" }) : null),
    table(`The last messages of ${one.topic}`, [["At"], ["Payload"], [""]], rows),
    subscribersOf(one.topic, found));
}

async function clear(one) {
  if (!confirm(`Clear the retained message of ${one.topic}?`)) return;
  const done = await ask(STATUS, "POST", pathOf(one.topic) + "?retain=1", undefined, () => `${one.topic} has no retained message any more.`);
  if (done) await showDetail(one);
}

// --- Watching and publishing ---------------------------------------------------------------------

function stop() {
  source?.close();
  source = null;
  $("watch").textContent = "Watch";
}

/** The server's time, which it states in seconds, rounded up. */
async function serverTime() {
  const answer = await request("/healthz", { method: "HEAD", cache: "no-store" });
  return Date.parse(answer.headers.get("date")) + 1_000;
}

function watch() {
  stop();
  root = node("", "");
  [topics, leftOut] = [0, 0];
  changed.clear();
  placed = [];
  $("topic-tree").replaceChildren();
  $("no-topics").textContent = "Nothing has been published under this filter.";
  const query = new URLSearchParams({ filter: $("watch-filter").value.trim() || "#", since: "latest" });
  const opened = new EventSource("/topics?" + query);
  let wasOpen = false;
  source = opened;
  source.onopen = () => { wasOpen = true; };
  began = Infinity;
  serverTime().then((unixMs) => { if (source === opened) began = unixMs; }, () => {});
  $("watch").textContent = "Stop";
  source.onmessage = (event) => {
    came(JSON.parse(event.data));
    draw();
  };
  source.onerror = () => {
    if (source?.readyState !== EventSource.CLOSED) return;
    // A proxy refuses it too, while the server restarts.
    if (wasOpen) return void setTimeout(() => source === opened && watch(), AGAIN_MS);
    stop();
    $("no-topics").textContent = "The server refuses this filter.";
    $("no-topics").hidden = topics > 0;
  };
  draw();
}

async function publish(event) {
  event.preventDefault();
  const topic = $("publish-topic").value;
  // A browser resolves these names in an address, so another topic would be published to.
  if (topic.split("/").some((name) => name === "." || name === "..")) return say(STATUS, "A browser cannot publish to a topic with the level . or ..", true);
  const options = { method: "POST", body: $("publish-payload").value, headers: { "content-type": "text/plain; charset=utf-8" } };
  const answer = await request(pathOf(topic) + ($("publish-retain").checked ? "?retain=1" : ""), options).catch(() => null);
  const reply = await answer?.json().catch(() => ({}));
  if (answer?.ok) say(STATUS, `Published to ${topic}: ${reply.verdict}, ${plural(reply.subscribers, "subscriber")}.`);
  else say(STATUS, reply?.detail ?? reply?.reason ?? "The server does not answer.", true);
}

/** Watches as long as the view is visible, so that no stream runs unseen. */
export function showTopics(isShown) {
  if (!isShown) stop();
  else if (!source) watch();
}

/** A topic, and those below it. */
export function watchTopic(filter) {
  $("watch-filter").value = filter;
  $("watch-filter").dataset.watched = filter;
  watch();
}

export function startTopics() {
  $("find-topics").addEventListener("submit", (event) => {
    event.preventDefault();
    if (source && $("watch-filter").value === $("watch-filter").dataset.watched) stop();
    else watch();
    $("watch-filter").dataset.watched = $("watch-filter").value;
  });
  $("publish").addEventListener("submit", publish);
}
