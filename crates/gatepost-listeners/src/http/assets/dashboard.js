// The dashboard: one snapshot of the state to start from, then one event stream of the gateway's
// own topics. Four views, of which the address names the shown one.

import { startAccess, loadUsers } from "./access.js";
import { loadBans, startBans } from "./bans.js";
import { SECONDS_SHOWN, showTraffic, showVerdicts, spark } from "./charts.js";
import { messageRow } from "./messages.js";
import { $, bytes, cell, element, figure, fill, mono, number, rate, whole } from "./page.js";
import { loadQuarantine, loadSenders, quarantineGrew, startQuarantine } from "./quarantine.js";
import { loadRules, startRules } from "./rules.js";
import { loadSessions, startSessions } from "./sessions.js";

const STATS = "$SYS/gatepost/stats";
const JOURNAL = "$SYS/gatepost/journal";
const MESSAGES_KEPT = 200;

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
  $("held").hidden = !now.held_rows;
  $("held-rows").textContent = number(now.held_rows);
  $("clock-ahead").textContent = duration(now.clock_ahead_seconds * 1000);
  if (started) $("uptime").textContent = "up " + duration(now.unix_ms - started);
  spark($("in-line"), stats.map((sample) => sample.messages_in_per_second));
  spark($("out-line"), stats.map((sample) => sample.deliveries_per_second));
  showTraffic(stats);
  showVerdicts(stats);
  showTables(now);
}

function duration(ms) {
  const minutes = Math.max(0, Math.floor(ms / 60_000));
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60) % 24];
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes % 60} min` : minutes ? `${minutes} min` : "less than a minute";
}

// --- Tables ------------------------------------------------------------------------------------

/** Why deliveries were dropped, for who wants to know. */
const causes = (counts) => Object.entries(counts ?? {}).map(([cause, count]) => `${cause.replaceAll("_", " ")}: ${number(count)}`).join(", ") || null;

function showTables(now) {
  fill("listeners", listeners.map((listener) => [
    cell(element("span", { class: listener.open ? "dot open" : "dot" }, element("span", { class: "unseen" }, listener.open ? "open: " : "closed: "), listener.name)),
    cell(listener.error ? element("span", { class: "warn" }, listener.error) : mono(listener.bind)),
    figure(listener.connections), figure(listener.messages)]));
  const topics = (now.topics ?? []).filter(({ topic }) => !topic.startsWith("$SYS/gatepost/"));
  fill("topics", topics.slice(0, 10).map((topic) => [
    cell(mono(topic.topic)), cell(rate(topic.per_second), "number"), figure(topic.messages)]));
  fill("sessions", (now.sessions ?? []).map((session) => [
    cell(element("span", { class: session.connected ? "dot open" : "dot" },
      element("span", { class: "unseen" }, session.connected ? "connected: " : "away: "), session.client,
      element("span", { class: "quiet" }, " " + session.kind))),
    figure(session.subscriptions), figure(session.queued),
    element("td", { class: session.dropped ? "number warn" : "number", title: causes(session.dropped_by) }, number(session.dropped))]));
  const sinks = now.sinks ?? [];
  $("sinks-card").hidden = sinks.length === 0;
  fill("sinks", sinks.map((sink) => {
    const troubled = sink.state === "retrying" || sink.state === "gone";
    const error = troubled && sink.last_error ? element("div", { class: "warn" }, sink.last_error.text) : "";
    return [
      cell(element("div", { title: sink.target }, element("span", { class: sink.state === "running" ? "dot open" : "dot" },
        element("span", { class: "unseen" }, sink.state + ": "), sink.name,
        element("span", { class: "quiet" }, ` ${sink.kind}${sink.state === "running" ? "" : ", " + sink.state}`)), error)),
      figure(sink.queued), cell(sink.lag_seconds ? `${number(sink.lag_seconds)} s` : "–", "number"),
      figure(sink.delivered), figure(sink.given_up, true)];
  }));
  const meanOf = (procedure) => (procedure.requests ? (procedure.cpu_seconds / procedure.requests) * 1e6 : 0);
  const called = (now.procedures ?? []).filter((procedure) => procedure.requests > 0);
  fill("procedures", called.sort((a, b) => meanOf(b) - meanOf(a)).map((procedure) => {
    const mean = meanOf(procedure);
    return [cell(mono(procedure.path)), figure(procedure.requests),
      cell(mean >= 1000 ? (mean / 1000).toFixed(1) + " ms" : mean.toFixed(0) + " µs", "number"), figure(procedure.errors, true)];
  }));
}

// --- Messages ----------------------------------------------------------------------------------

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

// --- Views -------------------------------------------------------------------------------------

const VIEWS = { overview: null, quarantine: loadSenders, rules: loadRules, access: () => Promise.all([loadUsers(), loadBans(), loadSessions()]) };

function showView() {
  const name = location.hash.slice(1) in VIEWS ? location.hash.slice(1) : "overview";
  for (const view of Object.keys(VIEWS)) {
    $("view-" + view).hidden = view !== name;
    const link = document.querySelector(`nav a[href="#${view}"]`);
    if (view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  VIEWS[name]?.().catch(() => {});
  draw();
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
      if (entry.action === "quarantine") quarantineGrew();
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
addEventListener("hashchange", showView);
startQuarantine();
startRules();
startAccess();
startBans();
startSessions();
showView();
loadState().catch(() => showLink("No state", false)).finally(listen);
