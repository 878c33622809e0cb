// The MQTT clients: search, inspection, disconnection and bans by an administrator.

import { $, ask, button, bytes, cell, element, figure, fill, keyed, linked, mono, number, plural, request, say, table, when } from "./page.js";

const STATUS = "session-status";
const COUNT = 100;
/** The causes that delay a session's messages. */
export const CAUSES = {
  client: "its client is not connected", memory: "its queue is on disk until there is memory", socket: "its socket accepts no more",
  acknowledgements: "it must acknowledge first", "packet identifier": "an identifier is still in use", commit: "the disk",
};

let skipped = 0;
/** The sessions of the page that is shown. */
let found = [];

function pathOf(session) {
  return `/admin/sessions/${encodeURIComponent(session.client)}?${new URLSearchParams({ user: session.user ?? "" })}`;
}

const change = async (session, question, method, body, done) => {
  if (!confirm(question)) return;
  await ask(STATUS, method, pathOf(session), body, done);
  await loadSessions();
};

function act(session) {
  const { client, user } = session;
  const ban = (what, named) => () => change(session, `Ban ${named} for a day? Its connections end.`, "POST", { action: "ban", what, time: "1d", reason: "by an operator" },
    (answer) => `${answer.bans[0].network} is banned for a day; ${plural(answer.kicked, "connection")} ended. Bans are listed above.`);
  return element("div", { class: "actions" },
    session.connected ? button("Disconnect", () => change(session, `Disconnect ${client}? Its session is kept.`, "POST", { action: "kick" }, (answer) => `${plural(answer.kicked, "connection")} of ${client} ended.`)) : null,
    session.address && session.address !== "local" ? button("Ban address", ban("address", `the address of ${client}`), { class: "danger" }) : null,
    user ? button("Ban user", ban("user", `the user ${user}`), { class: "danger" }) : null,
    button("End session", () => change(session, `End the session of ${client} and discard its queue?`, "DELETE", undefined, () => `The session of ${client} is ended.`), { class: "danger" }));
}

function facts(session) {
  const { connection, queue } = session;
  const list = [
    ["Connected", connection ? `since ${when(connection.since * 1000)} from ${connection.address}` : "no"], ["Protocol", connection?.protocol],
    ["Last packet", connection && `${connection.silent_seconds} s ago` + (connection.silence_max_seconds ? `; counts as lost after ${connection.silence_max_seconds} s` : "")],
    ["Session", (session.stored ? "on disk, " : "in memory, ") + (session.expires_in_seconds != null ? `ends in ${number(session.expires_in_seconds)} s` : session.expiry_seconds ? `outlives its connection by ${number(session.expiry_seconds)} s` : "ends with its connection")],
    ["Waiting", `${plural(queue.waiting, "message")}, ${bytes(queue.waiting_bytes)}`],
    ["Sent, not acknowledged", connection ? `${number(queue.in_flight)} of at most ${number(connection.in_flight_max)}` : number(queue.in_flight)],
    ["For its socket", `${plural(queue.outbox, "message")}, ${bytes(queue.outbox_bytes)}`],
    ["Waits for", session.waits_for.map((cause) => CAUSES[cause] ?? cause).join("; ") || "nothing"],
    ["Publishers wait", session.slows_publishers_seconds == null ? null : `for ${number(session.slows_publishers_seconds)} s`],
    ["Delivered", number(session.delivered)],
    ["Dropped", number(session.dropped) + Object.entries(session.dropped_by).map(([cause, count]) => `, ${cause.replaceAll("_", " ")} ${number(count)}`).join("")],
    ["Will", session.will],
  ].filter(([, value]) => value != null);
  return element("dl", {}, ...list.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, String(value))]));
}

/** The details of one session, below the list. */
async function inspect(session) {
  const answer = await ask(STATUS, "GET", pathOf(session), undefined, () => "");
  if (!answer) return;
  const place = $("session-detail");
  const [whole] = answer.sessions;
  const filters = whole.filters.map((filter) => [cell(linked("topic", filter.filter)), figure(filter.qos)]);
  const hide = button("Close", async () => place.replaceChildren());
  place.replaceChildren(
    element("div", { class: "head" }, element("h3", { tabindex: "-1" }, linked("session", whole.client)), hide),
    element("div", { class: "story" }, facts(whole),
      filters.length ? table(`Subscriptions of ${whole.client}`, [["Subscribes to"], ["QoS", "number"]], filters) : element("p", { class: "quiet" }, "It has no subscriptions."),
      element("div", { class: "wide" }, act(whole))));
  place.querySelector("h3").focus();
  place.scrollIntoView({ block: "nearest" });
}

function sessionRow(session) {
  const client = cell(element("span", { class: session.connected ? "dot open" : "dot" },
    element("span", { class: "unseen" }, session.connected ? "connected: " : "not connected: "), session.client, element("span", { class: "quiet" }, " " + session.kind)));
  return [
    // Clients of two users may have the same name.
    keyed(client, session.client, session.user, session.kind),
    cell(session.user ?? "no login"), cell(session.address ? mono(session.address) : "not connected"), figure(session.subscriptions), figure(session.queued),
    cell(session.waits_for.map((cause) => CAUSES[cause] ?? cause).join("; ")),
    cell(button("Inspect", () => inspect(session), { "aria-label": `Inspect ${session.client}` }), "number")];
}

function showPages(shown, total) {
  const last = skipped + shown;
  $("sessions-total").textContent = total ? `${number(skipped + 1)} to ${number(last)} of ${number(total)}` : "none";
  $("sessions-before").disabled = skipped === 0;
  $("sessions-after").disabled = last >= total;
}

export async function loadSessions() {
  const query = new URLSearchParams({ search: $("session-search").value.trim(), count: COUNT, skip: skipped });
  const answer = await request("/admin/sessions?" + query);
  if (!answer.ok) return;
  const { sessions, total } = await answer.json();
  found = sessions;
  fill("all-sessions", sessions.map(sessionRow));
  showPages(sessions.length, total);
}

function turn(by) {
  skipped = Math.max(0, skipped + by);
  loadSessions().catch(() => {});
}

/** One client by its whole name. */
export async function findSession(client) {
  $("session-search").value = client;
  skipped = 0;
  await loadSessions();
  const [session] = found.filter((session) => session.client === client);
  if (session) await inspect(session);
  else say(STATUS, `No client is called ${client}; the list has those whose names contain it.`, true);
}

export function startSessions() {
  $("find-session").addEventListener("submit", (event) => {
    event.preventDefault();
    skipped = 0;
    loadSessions().catch(() => {});
  });
  $("sessions-before").addEventListener("click", () => turn(-COUNT));
  $("sessions-after").addEventListener("click", () => turn(COUNT));
}
