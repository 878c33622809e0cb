// A message as a row that expands to its story. In a cluster, each message names the node that has it.

import { cell, day, element, hitTable, known, linked, number, plural, request, table, time, when, whole } from "./page.js";

const OUTCOMES = {
  sent: "sent", waiting: "not yet acknowledged", acknowledged: "acknowledged", not_connected: "not connected: QoS 0 is not queued",
  session_ended: "session ended before it was acknowledged", dropped: "dropped",
  kept: "in the mailbox", handed_on: "forwarded", refused: "refused",
};
const CAUSES = {
  outbox_full: "its socket accepted too little", queue_full: "its queue was full", stalled: "it read nothing for too long",
  connection_lost: "its connection was lost first", too_large: "larger than it accepts", expired: "it expired first",
  stream_full: "it read too slowly", not_stored: "the disk refused it", superseded: "replaced by a newer one",
  backbone: "the other nodes could not be reached",
};

export function messageRow(entry) {
  const what = known(entry.subject, entry.topic, entry.procedure, "(no subject)");
  const below = known(entry.topic !== what ? entry.topic : null, entry.recipients?.join(", "), entry.reason, "");
  const score = entry.score == null ? "" : `${entry.score.toFixed(1)} / ${entry.required.toFixed(1)}`;
  const row = element("details", { class: entry.action, "data-id": entry.id },
    element("summary", {},
      element("time", { datetime: new Date(entry.unix_ms).toISOString() }, when(entry.unix_ms)),
      element("span", { class: "badge " + entry.action }, entry.action),
      element("span", { class: "what" }, element("b", { dir: "auto" }, what), element("span", { dir: "auto" }, below)),
      element("span", { class: "from", dir: "auto" }, known(entry.sender, entry.user, entry.client, entry.peer, "") + "",
        entry.node ? element("span", { class: "quiet node" }, ` · node ${entry.node}`) : null),
      element("span", { class: "score" }, score)));
  // The story is built when it is opened, and requested again each time: subscribers
  // may have acknowledged meanwhile.
  row.addEventListener("toggle", () => {
    if (!row.open) return;
    if (row.childElementCount === 1) row.append(story(entry));
    showSteps(entry, row.querySelector(".steps"));
  });
  return row;
}

function story(entry) {
  const topics = entry.topics?.length ? entry.topics : [entry.topic].filter(Boolean);
  const facts = [
    ["Message", linked("message", entry.id)], ["Arrived", `${day(entry.unix_ms)}, ${time(entry.unix_ms)}` + (entry.listener ? ` by ${entry.listener}` : "")],
    ["Node", entry.node], ["Peer", known(entry.peer)], ["Client", entry.client && (entry.listener === "mqtt" ? linked("session", entry.client) : entry.client)], ["User", entry.user && linked("user", entry.user)], ["From", entry.sender],
    ["To", entry.recipients?.join(", ")], [topics.length > 1 ? "Topics" : "Topic", topics.join(", ")],
    ["Size", entry.size == null ? null : whole.format(entry.size) + " bytes"],
    ["Decided by", entry.procedure], ["Took", entry.duration_us == null ? null : `${(entry.duration_us / 1000).toFixed(2)} ms`],
    ["Delivered to", plural(entry.deliveries, "subscriber")],
  ].filter(([, value]) => value != null && value !== "");
  const list = element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", { dir: "auto" }, value instanceof Node ? value : String(value))]));
  return element("div", { class: "story" },
    entry.reason ? element("p", { class: "reason", dir: "auto" }, entry.reason) : null, list, hitTable(entry.hits), element("div", { class: "steps wide" }));
}

/** The query that names the node of a message; empty without a cluster. */
const ofNode = ({ node }) => (node ? `?node=${node}` : "");

/** The nodes whose part of a list is missing, as sentences; empty if none is. */
export const missing = ({ unanswered = [] }) => unanswered.map(({ reason }) => reason + ".").join(" ");

async function showSteps(entry, place) {
  const answer = await request("/admin/messages/" + entry.id + ofNode(entry)).catch(() => null);
  if (!answer) return;
  if (!answer.ok) {
    const reply = entry.node ? await answer.json().catch(() => null) : null;
    if (reply?.detail) place.replaceChildren(element("p", { class: "quiet" }, reply.detail));
    return;
  }
  const { steps, steps_more: more, deliveries } = await answer.json();
  if (!steps) {
    if (deliveries) place.replaceChildren(element("p", { class: "quiet" }, "Its deliveries are no longer recorded."));
    return;
  }
  if (!steps.length) return;
  const outcome = (step) => element("span", { class: ["dropped", "refused"].includes(step.outcome) ? "outcome warn" : "outcome " + step.outcome },
    OUTCOMES[step.outcome] + (step.cause ? `: ${CAUSES[step.cause] ?? step.cause}` : "") + (step.said ? `: ${step.said}` : ""));
  place.replaceChildren(table("Destinations and outcomes",
    [["To"], ["Topic"], ["QoS", "number"], ["Outcome"], ["At", "number"]],
    steps.map((step) => [
      cell(element("span", {}, step.client, element("span", { class: "quiet" }, " " + step.kind))), cell(step.topic ? linked("topic", step.topic) : ""),
      cell(step.qos ?? "", "number"), cell(outcome(step)), cell(when(step.unix_ms), "number")])));
  if (more) place.append(element("p", { class: "quiet" }, `and ${number(more)} more`));
}
