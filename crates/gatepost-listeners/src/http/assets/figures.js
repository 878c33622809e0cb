// The figures of this second: tiles, charts and the tables below them.

import { showAlarms } from "./alarms.js";
import { SECONDS_SHOWN, showTraffic, showVerdicts, spark } from "./charts.js";
import { $, bytes, cell, element, figure, fill, linked, mono, number, rate, time, whole } from "./page.js";
import { CAUSES } from "./sessions.js";

let started = 0;
let stats = [];
let listeners = [];
/** The time of the sample that is shown. */
let shown = 0;

export function startFigures(state) {
  started = state.started_unix_ms;
  listeners = state.listeners ?? [];
  $("version").textContent = state.version;
  for (const sample of state.stats ?? []) addStats(sample);
}

export function addStats(sample) {
  const last = stats.at(-1);
  // The server's clock was set back: the earlier samples are of a time to come.
  if (last && sample.unix_ms < last.unix_ms - SECONDS_SHOWN * 1000) stats = [];
  else if (last && sample.unix_ms <= last.unix_ms) return;
  stats.push(sample);
  if (stats.length > SECONDS_SHOWN) stats = stats.slice(-SECONDS_SHOWN);
  if (sample.listeners?.length) listeners = sample.listeners;
}

/** The address that a listener of this name has open. */
export const addressOf = (name) => listeners.find((listener) => listener.name === name && listener.open)?.bind;

/** Draws the latest figures, unless they are shown; `again` draws them for another size. */
export function showFigures(again = false) {
  const now = stats.at(-1);
  if (!now || (now.unix_ms === shown && !again)) return;
  shown = now.unix_ms;
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
  showSlowdowns(now);
  showTables(now);
}

function duration(ms) {
  const minutes = Math.max(0, Math.floor(ms / 60_000));
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60) % 24];
  if (days) return `${days} d ${hours} h`;
  return hours ? `${hours} h ${minutes % 60} min` : minutes ? `${minutes} min` : "less than a minute";
}

// --- Slow subscribers ---------------------------------------------------------------------------
// ---------------------------------------------------------------------

function showSlowdowns(now) {
  const slow = now.slowdowns ?? [];
  $("slow-card").hidden = slow.length === 0;
  fill("slow", slow.map((one) => {
    const seconds = Math.max(1, Math.round(((one.until_unix_ms ?? now.unix_ms) - one.since_unix_ms) / 1000));
    return [
      cell(element("span", { class: one.until_unix_ms ? "dot open" : "dot" }, element("bdi", {}, one.client),
        element("span", { class: "quiet" }, ` ${one.kind}`, one.user ? `, user ${one.user}` : ""))),
      cell(one.address ? mono(one.address) : "not connected"),
      cell(one.waits_for.map((cause) => CAUSES[cause] ?? cause).join("; ") || "its queue remains full"),
      cell(one.until_unix_ms ? `${time(one.since_unix_ms)} to ${time(one.until_unix_ms)}` : `since ${time(one.since_unix_ms)}`),
      cell(`${number(seconds)} s`, one.until_unix_ms ? "number" : "number warn")];
  }));
}

// --- Cluster -----------------------------------------------------------------------------------

/** The choice of a node, and which node the recent messages are of. */
function offerNodes({ node: here, nodes }) {
  for (const part of document.querySelectorAll(".of-cluster")) part.hidden = false;
  $("recent-node").textContent = `Of this node, ${here}. Search all finds the messages of all nodes.`;
  const numbers = nodes.map(({ node }) => node).sort((a, b) => a - b);
  for (const id of ["node", "quarantine-node"]) {
    const offered = new Set([...$(id).options].map(({ value }) => value));
    // A node that is gone stays, so that the list does not change below the pointer.
    for (const node of numbers) if (!offered.has(String(node))) $(id).append(element("option", { value: String(node) }, `Node ${node}`));
  }
}

/** The version of a node, and whether it lacks what a later version may write. */
const nodeVersion = (node, latest) => (node.version || "unknown") + (node.encoding < latest ? ", older encoding" : "");

function showNodes(now) {
  const cluster = now.cluster;
  $("nodes-card").hidden = !cluster;
  if (!cluster) return;
  offerNodes(cluster);
  const unsent = cluster.retained_unsent ? `, ${number(cluster.retained_unsent)} retained messages not sent yet` : "";
  const moved = cluster.sessions_adopted + cluster.sessions_released
    ? `; ${number(cluster.sessions_adopted)} sessions came from other nodes, ${number(cluster.sessions_released)} went to them` : "";
  $("nodes-status").textContent = `${number(cluster.forwarded)} messages to other nodes, ${number(cluster.received)} from them${unsent}${moved}`;
  const latest = Math.max(...cluster.nodes.map((node) => node.encoding));
  fill("nodes", cluster.nodes.map((node) => {
    const isThis = node.node === cluster.node;
    return [cell(element("span", { class: isThis && cluster.trouble ? "dot" : "dot open" }, String(node.node), element("span", { class: "quiet" }, isThis ? " this node" : ""))),
      cell(element("bdi", {}, node.host)), cell(nodeVersion(node, latest)), cell(node.started_unix_ms ? duration(now.unix_ms - node.started_unix_ms) : "–", "number")];
  }).concat(cluster.absent.map((node) => [
    cell(element("span", { class: "dot" }, String(node.node), element("span", { class: "quiet" }, " not running"))),
    cell("–"), cell(nodeVersion(node, latest)), cell("–", "number")])));
  $("nodes-trouble").hidden = !cluster.trouble && !cluster.unreadable;
  $("nodes-trouble").textContent = cluster.trouble ? `This node is not part of the cluster: ${cluster.trouble}` : cluster.unreadable ?? "";
}

// --- Tables ------------------------------------------------------------------------------------

/** The causes of dropped deliveries, as a tooltip. */
const causes = (counts) => Object.entries(counts ?? {}).map(([cause, count]) => `${cause.replaceAll("_", " ")}: ${number(count)}`).join(", ") || null;

function showTables(now) {
  fill("listeners", listeners.map((listener) => [
    cell(element("span", { class: listener.open ? "dot open" : "dot" }, element("span", { class: "unseen" }, listener.open ? "open: " : "closed: "), listener.name)),
    cell(listener.error ? element("span", { class: "warn" }, listener.error) : mono(listener.bind)),
    figure(listener.connections), figure(listener.messages)]));
  const topics = (now.topics ?? []).filter(({ topic }) => !topic.startsWith("$SYS/gatepost/"));
  fill("topics", topics.slice(0, 10).map((topic) => [
    cell(linked("topic", topic.topic)), cell(rate(topic.per_second), "number"), figure(topic.messages)]));
  fill("sessions", (now.sessions ?? []).map((session) => [
    cell(element("span", { class: session.connected ? "dot open" : "dot" },
      element("span", { class: "unseen" }, session.connected ? "connected: " : "not connected: "), session.client,
      element("span", { class: "quiet" }, " " + session.kind))),
    figure(session.subscriptions), figure(session.queued),
    element("td", { class: session.dropped ? "number warn" : "number", title: causes(session.dropped_by) }, number(session.dropped))]));
  showAlarms(now.alarms ?? []);
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
      figure(sink.delivered), figure(sink.given_up, true), figure(sink.dropped, true)];
  }));
  showNodes(now);
  const meanOf = (procedure) => (procedure.requests ? (procedure.cpu_seconds / procedure.requests) * 1e6 : 0);
  const called = (now.procedures ?? []).filter((procedure) => procedure.requests > 0);
  fill("procedures", called.sort((a, b) => meanOf(b) - meanOf(a)).map((procedure) => {
    const mean = meanOf(procedure);
    return [cell(mono(procedure.path)), figure(procedure.requests),
      cell(mean >= 1000 ? (mean / 1000).toFixed(1) + " ms" : mean.toFixed(0) + " µs", "number"), figure(procedure.errors, true)];
  }));
}
