// The messages in quarantine, the allowed senders, and the recipients who stopped the digests.

import { $, LEARNED, arrange, ask, button, cell, drawIn, element, fill, itemLink, keyed, mono, number, plural, request, when } from "./page.js";
import { ACTIONS, doLater, isLeaving, leavingCount, startLater } from "./later.js";
import { messageRow, missing } from "./messages.js";

const STATUS = "quarantine-status";
/** How long events are gathered before the list is requested again. */
const GATHER_MS = 500;
const COUNT = 100;
/** The most messages of one answer. */
const COUNT_MAX = 1_000;

let skipped = 0;
let found = 0;
const chosen = new Set();
/** Whether messages of other pages are chosen too. */
let isWide = false;

/** Topics are represented by the number of subscribers that received the message. */
const where = ({ destinations = [], subscribers }) => {
  const others = destinations.filter((one) => !one.startsWith("topic "));
  return [...(others.length < destinations.length || !others.length ? [plural(subscribers, "subscriber")] : []), ...others].join(", ");
};

function actions(entry) {
  const path = (what = "") => `/admin/quarantine/${entry.id}${what}`;
  const shown = element("pre", { class: "source", dir: "auto", tabindex: "0", hidden: "", "aria-label": "Text of the message" });
  // Inserted as text: a quarantined message is hostile until proven otherwise.
  const show = (field) => async () => {
    const message = await ask(STATUS, "GET", path());
    if (!message) return;
    shown.textContent = message[field] || "(nothing)";
    shown.hidden = false;
  };
  const learn = (lesson) => () => ask(STATUS, "POST", path(`/learn?as=${lesson}`), undefined, (result) => `${LEARNED[result.learned]}: ${lesson}.`);
  const release = async (body) => (await ask(STATUS, "POST", path("/release"), body, (result) => `Released to ${where(result)}.`)) && focusNext(entry);
  const releaseTo = (question, as_attachment) => async () => {
    const typed = prompt(question, entry.recipients?.join(", ") ?? "");
    if (typed == null) return;
    const recipients = typed.split(",").map((one) => one.trim()).filter(Boolean);
    if (recipients.length) await release({ recipients, as_attachment });
  };
  return element("div", { class: "wide" },
    element("div", { class: "actions" },
      button("Show text", show("text")),
      button("Show source", show("source")),
      element("a", { class: "button", href: path("/source"), download: entry.id + ".eml" }, "Save source"),
      button("Release", () => release(), { class: "main" }),
      button("Other recipients…", releaseTo("Release to these recipients instead, separated by commas:", false)),
      button("As attachment…", releaseTo("Send as an attachment to these recipients, separated by commas:", true)),
      entry.sender ? button("Allow sender", async () => (await ask(STATUS, "POST", path("/allow-sender"), undefined, (result) => `Mail from ${result.sender} is accepted from now on.`)) && loadSenders()) : null,
      button("Learn as spam", learn("spam")),
      button("Learn as ham", learn("ham")),
      element("a", { class: "button", href: itemLink("quarantine", entry.id) }, "Link"),
      button("Delete", async () => (await later(ACTIONS.delete, [entry.id]), focusNext(entry)), { class: "danger" })),
    shown);
}

/** The message is removed: the focus moves to the one below it. */
async function focusNext(entry) {
  const row = $("quarantine-list").querySelector(`[data-id="${entry.id}"]`);
  const next = row?.nextElementSibling ?? row?.previousElementSibling;
  await loadQuarantine();
  (next?.querySelector("summary") ?? $("content")).focus();
}

// --- Several at once -----------------------------------------------------------------------------

/** A checkbox before the row, which selects the message for an action on several. */
function chooser(entry) {
  const box = element("input", { type: "checkbox", class: "choose", "aria-label": `Choose ${entry.subject ?? entry.id}` });
  box.checked = chosen.has(entry.id);
  box.addEventListener("change", () => {
    if (box.checked) chosen.add(entry.id);
    else chosen.delete(entry.id);
    showChosen();
  });
  return box;
}

function showChosen() {
  for (const row of $("quarantine-list").children) row.querySelector(".choose").checked = chosen.has(row.dataset.id);
  for (const control of $("quarantine-bulk").querySelectorAll("button.bulk")) {
    control.isOff = () => chosen.size === 0;
    control.disabled = control.isOff();
  }
  $("quarantine-chosen").textContent = chosen.size ? `${plural(chosen.size, "message")} chosen` : "";
  const shown = $("quarantine-list").children.length;
  $("choose-found").hidden = chosen.size !== shown || shown === 0 || found <= shown;
  $("choose-found").textContent = `Choose all ${number(found)}`;
}

function chooseAll() {
  const boxes = [...$("quarantine-list").querySelectorAll(".choose")];
  const all = boxes.every((box) => box.checked);
  for (const box of boxes) {
    box.checked = !all;
    box.dispatchEvent(new Event("change"));
  }
}

const query = (order) => new URLSearchParams({ search: $("quarantine-search").value.trim(), node: $("quarantine-node").value, ...order });

/** Chooses all messages that the search finds, on whichever page. */
async function chooseFound() {
  isWide = true;
  // Oldest first, so that messages that arrive meanwhile do not shift the pages.
  for (let skip = 0; ; ) {
    const page = await ask(STATUS, "GET", "/admin/quarantine?" + query({ sort: "oldest", skip, count: COUNT_MAX }));
    if (!page) return;
    for (const { id } of page.messages) if (!isLeaving(id)) chosen.add(id);
    skip += page.messages.length;
    // A page may be short: a message has left the quarantine meanwhile.
    if (!page.messages.length || skip >= page.found) break;
  }
  showChosen();
}

/** The selected messages, for an action that can be undone. */
const withChosen = (action) => async () => {
  await later(action, [...chosen]);
  await loadQuarantine();
};

function later(action, ids) {
  for (const id of ids) chosen.delete(id);
  if (!chosen.size) isWide = false;
  return doLater(action, ids);
}

function startBulk() {
  $("choose-all").addEventListener("click", chooseAll);
  $("choose-found").addEventListener("click", () => chooseFound());
  $("quarantine-bulk").append(
    button("Release", withChosen(ACTIONS.release), { class: "bulk" }),
    button("Learn as spam", withChosen(ACTIONS.spam), { class: "bulk" }),
    button("Learn as ham", withChosen(ACTIONS.ham), { class: "bulk" }),
    button("Delete", withChosen(ACTIONS.delete), { class: "bulk danger" }));
  startLater(loadQuarantine);
  showChosen();
}

// --- The list ------------------------------------------------------------------------------------

let isDue = false;

/** A message went into quarantine; during a flood the list is fetched only now and then. */
export function quarantineGrew() {
  if (isDue) return;
  isDue = true;
  setTimeout(() => {
    isDue = false;
    loadQuarantine().catch(() => {});
  }, GATHER_MS);
}

function showKept(kept) {
  const before = new Map([...$("quarantine-list").children].map((row) => [row.dataset.id, row]));
  const stays = new Set(kept.map((entry) => entry.id));
  for (const id of chosen) if (!isWide && !stays.has(id)) chosen.delete(id);
  arrange($("quarantine-list"), kept.map((entry) => {
    if (before.has(entry.id)) return before.get(entry.id);
    const row = messageRow(entry);
    row.addEventListener("toggle", () => row.querySelector(".story")?.prepend(actions(entry)), { once: true });
    return element("div", { class: "chosen", "data-id": entry.id }, chooser(entry), row);
  }));
  showChosen();
}

/** The messages of the page; instead of those that are about to leave, it has later ones. */
async function readPage() {
  const kept = [];
  for (let skip = skipped, leaving = 0; ; ) {
    const answer = await request("/admin/quarantine?" + query({ sort: $("quarantine-sort").value, skip, count: Math.min(COUNT + leavingCount(), COUNT_MAX) }));
    if (!answer.ok) return null;
    const reply = await answer.json();
    const { messages, found: matching, total } = reply;
    const stay = messages.filter(({ id }) => !isLeaving(id));
    kept.push(...stay);
    leaving += messages.length - stay.length;
    skip += messages.length;
    if (kept.length >= COUNT || skip >= matching || !messages.length) return { kept: kept.slice(0, COUNT), matching: matching - leaving, all: total, without: missing(reply) };
  }
}

export async function loadQuarantine() {
  const page = await readPage();
  if (!page) return;
  const { kept } = page;
  found = page.matching;
  const total = page.all - leavingCount();
  drawIn($("quarantine-list"), () => showKept(kept));
  for (const id of ["quarantine-count", "quarantine-badge"]) $(id).textContent = number(total);
  $("quarantine-pages").textContent = kept.length ? `${number(skipped + 1)} to ${number(skipped + kept.length)} of ${number(found)}` : "";
  $("quarantine-before").disabled = skipped === 0;
  $("quarantine-after").disabled = skipped + kept.length >= found;
  $("quarantine-badge").hidden = total === 0;
  $("quarantine-missing").textContent = page.without;
  $("no-quarantine").hidden = kept.length > 0;
  $("no-quarantine").textContent = total ? "No message matches." : "The quarantine is empty.";
}

/** One message, opened. */
export async function showEntry(id) {
  $("quarantine-search").value = id;
  skipped = 0;
  isWide = false;
  await loadQuarantine();
  const row = $("quarantine-list").querySelector(`[data-id="${CSS.escape(id)}"] details`);
  if (!row) return;
  row.open = true;
  row.querySelector("summary").focus();
}

function search() {
  isWide = false;
  turnTo(0);
}

function turnTo(skip) {
  skipped = Math.max(0, skip);
  loadQuarantine().catch(() => {});
}

export async function loadSenders() {
  const answer = await request("/admin/senders");
  if (!answer.ok) return;
  const { senders } = await answer.json();
  const remove = (address) => async () =>
    confirm(`Judge mail from ${address} normally again?`) && (await ask(STATUS, "DELETE", "/admin/senders/" + encodeURIComponent(address), undefined, () => `${address} is judged normally again.`)) && loadSenders();
  fill("senders", senders.map((address) => [cell(mono(address)), cell(button("Remove", remove(address), { "aria-label": "Remove " + address }), "number")]));
}

/** Hidden until a recipient has stopped the digests; then it stays, so that what was done is shown. */
export async function loadStoppedDigests() {
  const answer = await request("/admin/digests/stopped?count=1000");
  if (!answer.ok) return;
  const { recipients, total } = await answer.json();
  if (total) $("digests-stopped").hidden = false;
  $("digests-count").textContent = number(total);
  const again = ({ kind, name }) => async () =>
    (await ask("digests-status", "DELETE", `/admin/digests/stopped/${kind}/${encodeURIComponent(name)}`, undefined, () => `Digests are sent to ${name} again.`)) && loadStoppedDigests();
  fill("digests", recipients.map((one) => [
    keyed(cell(mono(one.name)), one.kind, one.name), cell(one.since_unix_ms ? when(one.since_unix_ms) : ""),
    cell(button("Send again", again(one), { "aria-label": `Send digests to ${one.name} again` }), "number")]));
}

export function startQuarantine() {
  startBulk();
  $("find-quarantine").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  for (const id of ["quarantine-sort", "quarantine-node"]) $(id).addEventListener("change", search);
  $("quarantine-before").addEventListener("click", () => turnTo(skipped - COUNT));
  $("quarantine-after").addEventListener("click", () => turnTo(skipped + COUNT));
  $("add-sender").addEventListener("submit", async (event) => {
    event.preventDefault();
    const address = $("allowed-sender").value.trim();
    const done = await ask(STATUS, "PUT", "/admin/senders/" + encodeURIComponent(address), undefined, () => `Mail from ${address} is accepted from now on.`);
    if (!done) return;
    $("allowed-sender").value = "";
    await loadSenders();
  });
}
