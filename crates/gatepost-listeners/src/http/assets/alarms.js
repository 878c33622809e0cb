// The raised alarms, and the actions of operators on them.

import { $, ask, button, cell, element, fill, mono, when } from "./page.js";

const STATUS = "alarms-status";
let shown = "";

function causeOf({ cause, value, limit }) {
  return cause === "silence" ? "no message" : `${value} is ${cause} ${limit}`;
}

function raisedRow(alarm, raised) {
  const path = "/admin/alarms/" + encodeURIComponent(alarm);
  const act = (action, done) => () => ask(STATUS, "POST", path, { topic: raised.topic, ...action }, () => `${alarm}: ${raised.topic} ${done}.`);
  const about = (verb) => ({ "aria-label": `${verb} ${alarm}: ${raised.topic}` });
  const state = raised.snoozed_until_unix_ms ? `snoozed until ${when(raised.snoozed_until_unix_ms)}`
    : raised.acknowledged_by ? `acknowledged by ${raised.acknowledged_by}` : "";
  return [
    cell(element("div", {}, alarm, " ", mono(raised.topic), element("div", { class: "quiet" }, state))),
    cell(element("span", { class: state ? "" : "warn" }, causeOf(raised))), cell(when(raised.since_unix_ms)),
    cell(element("span", {},
      raised.acknowledged_by ? "" : button("Acknowledge", act({ action: "acknowledge" }, "is acknowledged"), about("Acknowledge")),
      raised.snoozed_until_unix_ms ? "" : button("Snooze 1 h", act({ action: "snooze", time: "1h" }, "is snoozed for an hour"), about("Snooze"))), "number")];
}

/** Shows the alarms; the table is changed only when they change, so that its buttons can be used. */
export function showAlarms(alarms) {
  const now = JSON.stringify(alarms.map(({ name, raised }) => [name, raised]));
  if (now === shown) return;
  shown = now;
  $("alarms-card").hidden = alarms.length === 0;
  fill("alarms", alarms.flatMap((alarm) => alarm.raised.map((raised) => raisedRow(alarm.name, raised))));
}
