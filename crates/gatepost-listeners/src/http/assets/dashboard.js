// The dashboard: one snapshot of the state to start from, then one event stream of the gateway's
// own topics. Everything that a message holds is put in as text, never as markup.
"use strict";

const STATS = "$SYS/gatepost/stats";
const JOURNAL = "$SYS/gatepost/journal";
const VERDICTS = ["accept", "tag", "quarantine", "drop", "reject", "defer"];
const SECONDS_SHOWN = 120;
const MESSAGES_KEPT = 200;

const $ = (id) => document.getElementById(id);
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const number = (value) => (value >= 10_000 ? short.format(value) : whole.format(value ?? 0));
const rate = (value) => (value > 0 && value < 10 ? value.toFixed(1) : number(value));
const bytes = (value) => short.format(value ?? 0).replace("B", "G") + "B";
const time = (unixMs) => new Date(unixMs).toLocaleTimeString("en-GB");

/** An element with attributes and children; texts become text nodes. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) made.setAttribute(key, value);
  made.append(...children.filter((child) => child != null));
  return made;
}

function shape(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// --- State -------------------------------------------------------------------------------------

let started = 0;
let stats = [];
let listeners = [];
let paused = false;
const messages = new Map();
const waiting = [];

function addStats(sample) {
  const last = stats.at(-1);
  if (last && sample.unix_ms <= last.unix_ms) return;
  stats.push(sample);
  if (stats.length > SECONDS_SHOWN) stats = stats.slice(-SECONDS_SHOWN);
  if (sample.listeners?.length) listeners = sample.listeners;
}

// --- Figures -----------------------------------------------------------------------------------

function showFigures() {
  const now = stats.at(-1);
  if (!now) return;
  $("in").textContent = rate(now.messages_in_per_second);
  $("out").textContent = rate(now.deliveries_per_second);
  $("sessions-count").textContent = number(now.sessions_connected);
  $("subscriptions").textContent = number(now.subscriptions);
  $("retained").textContent = number(now.retained);
  $("cpu").textContent = whole.format(now.cpu_cores * 100);
  $("memory").textContent = bytes(now.memory_bytes);
  $("dropped").textContent = number(now.dropped);
  $("dropped").className = now.dropped > 0 ? "warn" : "";
  if (started) $("uptime").textContent = "up " + duration(now.unix_ms - started);
  spark($("in-line"), stats.map((sample) => sample.messages_in_per_second));
  spark($("out-line"), stats.map((sample) => sample.deliveries_per_second));
  showTraffic();
  showVerdicts(now.verdicts ?? {});
  showTables(now);
}

function duration(ms) {
  const minutes = Math.max(0, Math.floor(ms / 60_000));
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60) % 24];
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes % 60} min` : minutes ? `${minutes} min` : "less than a minute";
}

/** Points from the right edge: the newest sample is always at the right. */
function points(values, width, height, top) {
  const step = width / (SECONDS_SHOWN - 1);
  const left = width - step * (values.length - 1);
  return values.map((value, index) => [left + index * step, height - (value / top) * height]);
}

const path = (corners) => corners.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function curve(values, width, height, top, kind) {
  const corners = points(values, width, height, top);
  if (corners.length < 2) return [];
  const line = path(corners);
  const area = `${line}L${width} ${height}L${corners[0][0].toFixed(1)} ${height}Z`;
  return [shape("path", { d: area, class: "area " + kind }), shape("path", { d: line, class: "line " + kind })];
}

function spark(svg, values) {
  svg.setAttribute("viewBox", "0 0 240 40");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.replaceChildren(...curve(values, 240, 38, Math.max(1, ...values) * 1.15, ""));
}

/** The next of 1, 2, 5, 10, … above the largest value. */
function scaleTop(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value) ?? 1;
}

function showTraffic() {
  const svg = $("traffic");
  const { width, height } = svg.getBoundingClientRect();
  if (!width) return;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const incoming = stats.map((sample) => sample.messages_in_per_second);
  const outgoing = stats.map((sample) => sample.deliveries_per_second);
  const top = scaleTop(Math.max(...incoming, ...outgoing, 1));
  const base = height - 16;
  const parts = [0, 0.5, 1].flatMap((share) => {
    const y = base - share * base;
    const label = shape("text", { x: 0, y: y - 4 });
    label.textContent = share ? rate(top * share) : "";
    return [shape("line", { x1: 0, x2: width, y1: y, y2: y, class: "rule" }), label];
  });
  parts.push(...curve(outgoing, width, base, top, "out"), ...curve(incoming, width, base, top, "in"));
  for (const [x, anchor, words] of [[0, "start", "2 minutes ago"], [width, "end", "now"]]) {
    const label = shape("text", { x, y: height - 2, "text-anchor": anchor });
    label.textContent = words;
    parts.push(label);
  }
  svg.replaceChildren(...parts);
}

function showVerdicts(totals) {
  $("verdicts").replaceChildren(...VERDICTS.map((verdict) =>
    element("li", { class: verdict }, element("span", {}, verdict), element("b", {}, number(totals[verdict] ?? 0)))));
  // Bars of four seconds each, of what was added to the totals meanwhile.
  const bars = SECONDS_SHOWN / 4;
  const sums = [];
  for (let end = stats.length - 1; end > 0 && sums.length < bars; end -= 4) {
    const from = stats[Math.max(0, end - 4)].verdicts ?? {};
    const to = stats[end].verdicts ?? {};
    sums.unshift(VERDICTS.map((verdict) => Math.max(0, (to[verdict] ?? 0) - (from[verdict] ?? 0))));
  }
  const svg = $("verdict-bars");
  svg.setAttribute("viewBox", `0 0 ${bars * 10} 60`);
  svg.setAttribute("preserveAspectRatio", "none");
  const top = Math.max(1, ...sums.map((sum) => sum.reduce((a, b) => a + b, 0)));
  const parts = [shape("line", { x1: 0, x2: bars * 10, y1: 60, y2: 60, class: "rule" })];
  sums.forEach((sum, index) => {
    let y = 60;
    sum.forEach((count, kind) => {
      const height = (count / top) * 58;
      y -= height;
      if (height) parts.push(shape("rect", { x: (bars - sums.length + index) * 10 + 1.5, y, width: 7, height, class: "bar " + VERDICTS[kind] }));
    });
  });
  svg.replaceChildren(...parts);
}

// --- Tables ------------------------------------------------------------------------------------

const cell = (content, kind) => element("td", { class: kind }, content);
const figure = (value, warns) => cell(number(value), warns && value > 0 ? "number warn" : "number");

function fill(id, rows) {
  if (rows.length) $(id).replaceChildren(...rows.map((cells) => element("tr", {}, ...cells)));
}

function showTables(now) {
  fill("listeners", listeners.map((listener) => [
    cell(element("span", { class: listener.open ? "dot open" : "dot", title: listener.open ? "open" : "closed" }, listener.name)),
    cell(listener.error ? element("span", { class: "warn" }, listener.error) : element("span", { class: "mono" }, listener.bind)),
    figure(listener.connections), figure(listener.messages)]));
  const topics = (now.topics ?? []).filter(({ topic }) => !topic.startsWith("$SYS/gatepost/"));
  fill("topics", topics.slice(0, 10).map((topic) => [
    cell(element("span", { class: "mono" }, topic.topic)), cell(rate(topic.per_second), "number"), figure(topic.messages)]));
  fill("sessions", (now.sessions ?? []).map((session) => [
    cell(element("span", { class: session.connected ? "dot open" : "dot", title: session.connected ? "connected" : "away" },
      session.client, element("span", { class: "quiet" }, " " + session.kind))),
    figure(session.subscriptions), figure(session.queued), figure(session.dropped, true)]));
  fill("procedures", (now.procedures ?? []).map((procedure) => {
    const mean = procedure.requests ? (procedure.cpu_seconds / procedure.requests) * 1e6 : 0;
    return [cell(element("span", { class: "mono" }, procedure.path)), figure(procedure.requests),
      cell(mean >= 1000 ? (mean / 1000).toFixed(1) + " ms" : mean.toFixed(0) + " µs", "number"), figure(procedure.errors, true)];
  }));
}

// --- Messages ----------------------------------------------------------------------------------

const known = (...values) => values.find((value) => value != null && value !== "");

function messageRow(entry) {
  const what = known(entry.subject, entry.topic, entry.procedure, "(no subject)");
  const below = known(entry.topic !== what ? entry.topic : null, entry.recipients?.join(", "), entry.reason, "");
  const score = entry.score == null ? "" : `${entry.score.toFixed(1)} / ${entry.required.toFixed(1)}`;
  const row = element("details", { class: entry.action, "data-id": entry.id },
    element("summary", {},
      element("time", { datetime: new Date(entry.unix_ms).toISOString() }, time(entry.unix_ms)),
      element("span", { class: "badge " + entry.action }, entry.action),
      element("span", { class: "what" }, element("b", {}, what), element("span", {}, below)),
      element("span", { class: "from" }, known(entry.sender, entry.user, entry.client, entry.peer, "") + ""),
      element("span", { class: "score" }, score)));
  // The story is made when somebody wants to read it.
  row.addEventListener("toggle", () => {
    if (row.open && row.childElementCount === 1) row.append(story(entry));
  });
  return row;
}

function story(entry) {
  const facts = [
    ["Message", entry.id], ["Arrived", `${new Date(entry.unix_ms).toLocaleString("en-GB")} by ${entry.listener}`],
    ["Peer", known(entry.peer)], ["Client", entry.client], ["User", entry.user], ["From", entry.sender],
    ["To", entry.recipients?.join(", ")], ["Topic", entry.topic], ["Size", entry.size == null ? null : whole.format(entry.size) + " bytes"],
    ["Decided by", entry.procedure], ["Took", entry.duration_us == null ? null : `${(entry.duration_us / 1000).toFixed(2)} ms`],
    ["Delivered to", `${number(entry.deliveries)} subscriber${entry.deliveries === 1 ? "" : "s"}`],
  ].filter(([, value]) => value != null && value !== "");
  const list = element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, String(value))]));
  const hits = [...(entry.hits ?? [])].sort((a, b) => Math.abs(b.score) - Math.abs(a.score));
  const rules = hits.length
    ? element("table", {}, element("caption", { class: "unseen" }, "Rules that matched"),
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Rule"), element("th", { scope: "col", class: "number" }, "Score"))),
      element("tbody", {}, ...hits.map((hit) => element("tr", {}, cell(element("span", { class: "mono" }, hit.name)), cell(hit.score.toFixed(1), "number")))))
    : element("p", { class: "quiet" }, "No rule matched.");
  return element("div", { class: "story" },
    entry.reason ? element("p", { class: "reason" }, entry.reason) : null, list, rules);
}

function matches(entry) {
  const verdict = $("verdict").value;
  if (verdict && entry.action !== verdict) return false;
  const wanted = $("search").value.trim().toLowerCase();
  if (!wanted) return true;
  const rules = (entry.hits ?? []).map((hit) => hit.name);
  return [entry.id, entry.subject, entry.topic, entry.sender, entry.reason, entry.peer, entry.listener, ...(entry.recipients ?? []), ...rules]
    .some((text) => text?.toLowerCase().includes(wanted));
}

function addMessage(entry, fresh) {
  if (messages.has(entry.id)) return;
  const row = messageRow(entry);
  row.hidden = !matches(entry);
  if (fresh) row.classList.add("fresh");
  messages.set(entry.id, { entry, row });
  $("list").prepend(row);
  $("no-messages").hidden = true;
  if (messages.size > MESSAGES_KEPT) {
    const [oldest, { row }] = messages.entries().next().value;
    row.remove();
    messages.delete(oldest);
  }
}

function showWaiting() {
  if (paused) return;
  // More than fits would be gone before anyone saw it.
  for (const entry of waiting.splice(0).slice(-MESSAGES_KEPT)) addMessage(entry, true);
}

function filter() {
  for (const { entry, row } of messages.values()) row.hidden = !matches(entry);
}

// --- Search in the whole journal -----------------------------------------------------------------

async function searchAll() {
  const query = new URLSearchParams({ search: $("search").value.trim(), verdict: $("verdict").value, count: MESSAGES_KEPT });
  const answer = await fetch("/admin/messages?" + query);
  if (!answer.ok) return;
  const { messages: found } = await answer.json();
  // What is shown already stays; older ones take their place by time.
  for (const entry of found) {
    if (messages.has(entry.id)) continue;
    const row = messageRow(entry);
    messages.set(entry.id, { entry, row });
    const later = [...$("list").children].find((other) => other.dataset.id < entry.id);
    $("list").insertBefore(row, later ?? null);
  }
  $("no-messages").hidden = messages.size > 0;
  filter();
}

// --- Quarantine ----------------------------------------------------------------------------------

const say = (words) => ($("quarantine-said").textContent = words);

/** Asks the API; gives the answer, or says what went wrong. */
async function ask(method, path, done) {
  const answer = await fetch("/admin/quarantine" + path, { method });
  const told = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (answer.ok) say(done(told));
  else say(told.detail ?? told.reason ?? `The server answered ${answer.status}.`);
  return answer.ok ? told : null;
}

function quarantineActions(entry) {
  const path = "/" + entry.id;
  const button = (words, act) => {
    const made = element("button", { type: "button" }, words);
    made.addEventListener("click", async () => {
      made.disabled = true;
      await act().catch(() => say("The server does not answer."));
      made.disabled = false;
    });
    return made;
  };
  const shown = element("pre", { class: "source", tabindex: "0", hidden: "", "aria-label": "What the message says" });
  const show = (field) => async () => {
    const answer = await fetch("/admin/quarantine" + path);
    if (!answer.ok) return;
    const message = await answer.json();
    shown.textContent = message[field] || "(nothing)";
    shown.hidden = false;
  };
  const learned = { new: "Learned", changed: "Learned anew", before: "Known before", off: "Bayes is switched off" };
  const learn = (lesson) => () => ask("POST", `${path}/learn?as=${lesson}`, (told) => `${learned[told.learned]}: ${lesson}.`);
  return element("div", { class: "wide" },
    element("div", { class: "actions" },
      button("Show text", show("text")),
      button("Show source", show("source")),
      button("Release", async () => (await ask("POST", path + "/release", (told) => `Released to ${told.subscribers} subscriber${told.subscribers === 1 ? "" : "s"}.`)) && loadQuarantine()),
      button("Learn as spam", learn("spam")),
      button("Learn as ham", learn("ham")),
      button("Delete", async () => (await ask("DELETE", path, () => "Deleted.")) && loadQuarantine())),
    shown);
}

async function loadQuarantine() {
  const answer = await fetch("/admin/quarantine");
  if (!answer.ok) return;
  const { messages: kept } = await answer.json();
  const before = new Map([...$("quarantine-list").children].map((row) => [row.dataset.id, row]));
  $("quarantine-list").replaceChildren(...kept.map((entry) => {
    if (before.has(entry.id)) return before.get(entry.id);
    const row = messageRow(entry);
    row.addEventListener("toggle", () => row.querySelector(".story")?.append(quarantineActions(entry)), { once: true });
    return row;
  }));
  $("quarantine-count").textContent = number(kept.length);
  $("no-quarantine").hidden = kept.length > 0;
}

// --- Start -------------------------------------------------------------------------------------

let drawing = false;
function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    showFigures();
    showWaiting();
  });
}

function showLink(words, live) {
  $("link").textContent = words;
  $("link").className = live ? "pill live" : "pill";
}

async function loadState() {
  const state = await (await fetch("/admin/state")).json();
  started = state.started_unix_ms;
  listeners = state.listeners ?? [];
  $("version").textContent = state.version;
  for (const sample of state.stats ?? []) addStats(sample);
  await loadQuarantine();
  for (const entry of [...(state.journal ?? [])].reverse()) addMessage(entry, false);
  draw();
}

function listen() {
  const query = new URLSearchParams([["filter", STATS], ["filter", JOURNAL]]);
  const source = new EventSource("/topics?" + query);
  let connected = false;
  source.onopen = () => {
    showLink("Live", true);
    // After a break the state may hold what the stream could not resume.
    if (connected) loadState().catch(() => {});
    connected = true;
  };
  source.onerror = () => showLink("Reconnecting", false);
  source.onmessage = (event) => {
    const { topic, payload } = JSON.parse(event.data);
    if (topic === STATS) addStats(JSON.parse(payload));
    else if (topic === JOURNAL) {
      const entry = JSON.parse(payload);
      waiting.push(entry);
      if (entry.action === "quarantine") loadQuarantine().catch(() => {});
      if (waiting.length > MESSAGES_KEPT) waiting.shift();
    }
    draw();
  };
}

$("example").textContent = `curl -d 'Hello' ${location.origin}/topics/alarms/test`;
$("search").addEventListener("input", filter);
$("verdict").addEventListener("change", filter);
$("filters").addEventListener("submit", (event) => {
  event.preventDefault();
  searchAll().catch(() => {});
});
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", paused);
  draw();
});
addEventListener("resize", draw);
loadState().catch(() => showLink("No state", false)).finally(listen);
