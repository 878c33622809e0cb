// The MQTT sessions, and how an administrator ends one.

import { $, ask, button, cell, element, figure, fill } from "./page.js";

const SAID = "session-said";
const COUNT = 100;

function sessionRow(session) {
  const query = new URLSearchParams({ user: session.user ?? "" });
  const end = async () => {
    if (!confirm(`End the session of ${session.client}, with all that waits for it?`)) return;
    await ask(SAID, "DELETE", `/admin/sessions/${encodeURIComponent(session.client)}?${query}`, undefined, () => `The session of ${session.client} is over.`);
    await loadSessions();
  };
  return [
    cell(element("span", { class: session.connected ? "dot open" : "dot" },
      element("span", { class: "unseen" }, session.connected ? "connected: " : "away: "), session.client, element("span", { class: "quiet" }, " " + session.kind))),
    cell(session.user ?? "no login"), figure(session.subscriptions), figure(session.queued),
    cell(button("End", end, { class: "danger", "aria-label": `End the session of ${session.client}` }), "number")];
}

export async function loadSessions() {
  const query = new URLSearchParams({ search: $("session-search").value.trim(), count: COUNT });
  const answer = await fetch("/admin/sessions?" + query);
  if (!answer.ok) return;
  const { sessions } = await answer.json();
  fill("all-sessions", sessions.map(sessionRow));
}

export function startSessions() {
  $("find-session").addEventListener("submit", (event) => {
    event.preventDefault();
    loadSessions().catch(() => {});
  });
}
