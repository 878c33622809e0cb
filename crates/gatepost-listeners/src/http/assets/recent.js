// The messages that were judged last: a list that grows at its top unless it is paused.
//
// An opened row pauses the list: at 150 messages a second it would be gone before it is read.
// Messages that arrive meanwhile are counted, and shown when the list continues.

import { $, drawIn, element, number } from "./page.js";
import { messageRow } from "./messages.js";

const MESSAGES_KEPT = 200;
/** More messages at once are a burst, in which the list is drawn less often: it cannot be read meanwhile. */
const BURST = 20;
const BURST_DRAWN_EVERY_MS = 500;

const messages = new Map();
/** Messages that wait to be shown, at most as many as the list can show. */
const waiting = [];
let arrivedMeanwhile = 0;
let drawnAt = 0;
let drawsLater = false;
/** The cause of the pause: the button or an opened row. */
let pausedBy = null;

const list = () => $("list");
const openRow = () => list().querySelector("details[open]");

function matches(entry) {
  const verdict = $("verdict").value;
  if (verdict && entry.action !== verdict) return false;
  const wanted = $("search").value.trim().toLowerCase();
  if (!wanted) return true;
  const rules = (entry.hits ?? []).map((hit) => hit.name);
  return [entry.id, entry.subject, entry.topic, entry.sender, entry.reason, entry.peer, entry.listener, ...(entry.recipients ?? []), ...rules]
    .some((text) => text?.toLowerCase().includes(wanted));
}

function add(entry, fresh) {
  if (messages.has(entry.id)) return null;
  const row = messageRow(entry);
  row.hidden = !matches(entry);
  if (fresh) row.classList.add("fresh");
  messages.set(entry.id, { entry, row });
  return row;
}

/** Adds messages, oldest first. */
function addAll(entries, fresh) {
  const rows = entries.map((entry) => add(entry, fresh)).filter(Boolean);
  const tooMany = [...messages].slice(0, Math.max(0, messages.size - MESSAGES_KEPT));
  for (const [id, { row }] of tooMany) {
    row.remove();
    messages.delete(id);
  }
  list().prepend(...rows.reverse());
  showEmpty();
}

/** Messages from before the page was opened, oldest first. */
export function addEarlier(entries) {
  addAll(entries.slice(-MESSAGES_KEPT), false);
}

export function arrived(entry) {
  waiting.push(entry);
  if (waiting.length > MESSAGES_KEPT) waiting.shift();
  if (pausedBy) arrivedMeanwhile += 1;
}

export function showArrived() {
  showPause();
  if (pausedBy || !waiting.length || isTooEarly()) return;
  const before = openRow();
  // The press that was waited for may have opened a row; the event that says so comes later.
  drawIn(list(), () => openRow() === before && addWaiting());
}

/** Whether a burst is drawn later. */
function isTooEarly() {
  const left = drawnAt + BURST_DRAWN_EVERY_MS - performance.now();
  if (waiting.length <= BURST || left <= 0) return false;
  if (!drawsLater) setTimeout(() => { drawsLater = false; showArrived(); }, left);
  drawsLater = true;
  return true;
}

function addWaiting() {
  drawnAt = performance.now();
  const isBurst = waiting.length > BURST;
  addAll(waiting.splice(0), !isBurst);
}

function showEmpty() {
  $("no-messages").hidden = messages.size > 0;
  const none = messages.size > 0 && ![...messages.values()].some(({ row }) => !row.hidden);
  $("no-recent").hidden = !none;
}

function filter() {
  for (const { entry, row } of messages.values()) row.hidden = !matches(entry);
  showEmpty();
}

// --- Pausing -------------------------------------------------------------------------------------

function showPause() {
  const words = pausedBy ? "Resume" + (arrivedMeanwhile ? `, ${number(arrivedMeanwhile)} new` : "") : "Pause";
  if ($("pause").textContent !== words) $("pause").textContent = words;
  $("pause").setAttribute("aria-pressed", pausedBy !== null);
}

function pause(by) {
  pausedBy = by;
  arrivedMeanwhile = by ? waiting.length : 0;
  showArrived();
}

function rowToggled() {
  const isOpen = openRow() !== null;
  if (isOpen && !pausedBy) pause("row");
  else if (!isOpen && pausedBy === "row") pause(null);
}

export function startRecent() {
  // The event does not bubble.
  list().addEventListener("toggle", rowToggled, true);
  $("pause").addEventListener("click", () => pause(pausedBy ? null : "button"));
  $("search").addEventListener("input", filter);
  $("verdict").addEventListener("change", filter);
}

/** The command for a first entry: by mail, which the journal always records. */
export function showExample(smtpAddress) {
  if (!smtpAddress) return;
  const port = smtpAddress.slice(smtpAddress.lastIndexOf(":") + 1);
  // A wildcard address cannot be connected to.
  const host = /^(0\.0\.0\.0|\[::\]):/.test(smtpAddress) ? location.hostname : smtpAddress.slice(0, smtpAddress.lastIndexOf(":"));
  $("example").replaceChildren("Send a mail:", element("br"), element("code", {},
    `printf 'Subject: Hello\\n\\nIt works.\\n' | curl --crlf -T - --mail-from you@localhost --mail-rcpt alarms+test@localhost smtp://${host}:${port}`));
}
