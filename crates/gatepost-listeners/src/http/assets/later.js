// Actions on messages in quarantine that can be undone: the request is sent when the time to undo is
// over, so that nothing needs to be brought back, which a delivered message could not be. A page that
// is closed before has done nothing, and says so.

import { $, ask, number, plural, say } from "./page.js";

const STATUS = "quarantine-status";
/** The time in which an action can be undone. */
const UNDO_MS = 10_000;
/** After so many messages the number that is left is shown again. */
const PROGRESS = 20;

const PATH = "/admin/quarantine/";
const learn = (lesson) => ({
  will: `learned as ${lesson}`, done: `Learned as ${lesson}`, now: "Learn now", leaves: false,
  act: (id) => ask(STATUS, "POST", `${PATH}${id}/learn?as=${lesson}`),
});
/** What can be done: its words, whether the messages leave the list, and the request. */
export const ACTIONS = {
  delete: { will: "deleted", done: "Deleted", now: "Delete now", leaves: true, act: (id) => ask(STATUS, "DELETE", PATH + id) },
  release: { will: "released", done: "Released", now: "Release now", leaves: true, act: (id) => ask(STATUS, "POST", `${PATH}${id}/release`) },
  spam: learn("spam"),
  ham: learn("ham"),
};

let action = null;
const waiting = new Set();
let timer = 0;
let reload = async () => {};

/** Whether the message is to leave the list. */
export const isLeaving = (id) => Boolean(action?.leaves) && waiting.has(id);
export const leavingCount = () => (action?.leaves ? waiting.size : 0);

/** Does this to the messages when the time to undo is over; another action that waits is done at once. */
export async function doLater(next, ids) {
  if (action && action !== next) await doNow();
  action = next;
  for (const id of ids) waiting.add(id);
  clearTimeout(timer);
  timer = setTimeout(() => doNow(), UNDO_MS);
  show();
}

function show() {
  $("quarantine-leaving").hidden = waiting.size === 0;
  $("leaving-status").textContent = waiting.size ? `${plural(waiting.size, "message")} will be ${action.will} in ${UNDO_MS / 1000} seconds.` : "";
  $("leaving-now").textContent = action?.now ?? "";
}

async function undo() {
  clearTimeout(timer);
  const [count, undone] = [waiting.size, action];
  waiting.clear();
  action = null;
  show();
  const stay = count === 1 ? "stays" : "stay";
  say(STATUS, undone.leaves ? `${plural(count, "message")} ${stay} in quarantine.` : `${plural(count, "message")} not ${undone.will}.`);
  await reload();
  $("content").focus();
}

let running = null;

/** Acts on all messages that wait; of two calls at once, both wait for the same. */
const doNow = () => (running ??= actOnAll().finally(() => (running = null)));

async function actOnAll() {
  clearTimeout(timer);
  const [ids, doing] = [[...waiting], action];
  if (!doing) return;
  let done = 0;
  let failed = 0;
  for (const id of ids) {
    // Undone meanwhile.
    if (action !== doing) break;
    if (await doing.act(id)) done += 1;
    else failed += 1;
    waiting.delete(id);
    if (done % PROGRESS === 0 && waiting.size) $("leaving-status").textContent = `${plural(waiting.size, "message")} still to be ${doing.will}.`;
  }
  // More may have been chosen for the same action meanwhile.
  if (!waiting.size && action === doing) action = null;
  show();
  const rest = done + failed < ids.length ? " The others are left as they are." : "";
  const failures = failed ? ` ${number(failed)} failed: ${$(STATUS).textContent}` : "";
  say(STATUS, `${doing.done}: ${plural(done, "message")}.${rest}${failures}`, failures !== "");
  await reload();
}

/** `reloadList` shows the list again when an action is done or undone. */
export function startLater(reloadList) {
  reload = reloadList;
  $("leaving-undo").addEventListener("click", undo);
  $("leaving-now").addEventListener("click", doNow);
  addEventListener("beforeunload", (event) => waiting.size && event.preventDefault());
}
