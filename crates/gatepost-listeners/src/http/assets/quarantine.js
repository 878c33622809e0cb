// The messages in quarantine, and the senders whose mail passes.

import { $, arrange, ask, button, cell, drawIn, element, fill, itemLink, mono, number, plural, say } from "./page.js";
import { messageRow } from "./messages.js";

const SAID = "quarantine-said";
/** How long events are gathered before the list is requested again. */
const GATHER_MS = 500;
const COUNT = 100;
/** The time in which a deletion can be undone. */
const UNDO_MS = 10_000;
const LEARNED = { new: "Learned", changed: "Learned again", before: "Known before", off: "Bayes is switched off" };

let skipped = 0;
let found = 0;
/** Those that are deleted when the time to undo that is over. */
const leaving = new Set();
let leavingTimer = 0;
const chosen = new Set();

/** Topics are named by who received the message there. */
const where = ({ destinations = [], subscribers }) => {
  const others = destinations.filter((one) => !one.startsWith("topic "));
  return [...(others.length < destinations.length || !others.length ? [plural(subscribers, "subscriber")] : []), ...others].join(", ");
};

function actions(entry) {
  const path = "/admin/quarantine/" + entry.id;
  const shown = element("pre", { class: "source", dir: "auto", tabindex: "0", hidden: "", "aria-label": "What the message says" });
  // As text, whatever it holds: a quarantined message is hostile until proven otherwise.
  const show = (field) => async () => {
    const message = await ask(SAID, "GET", path);
    if (!message) return;
    shown.textContent = message[field] || "(nothing)";
    shown.hidden = false;
  };
  const learn = (lesson) => () => ask(SAID, "POST", `${path}/learn?as=${lesson}`, undefined, (result) => `${LEARNED[result.learned]}: ${lesson}.`);
  const release = async (body) => (await ask(SAID, "POST", path + "/release", body, (result) => `Released to ${where(result)}.`)) && goOn(entry);
  const releaseTo = async () => {
    const typed = prompt("Release to these recipients instead, separated by commas:", entry.recipients?.join(", ") ?? "");
    if (typed == null) return;
    const recipients = typed.split(",").map((one) => one.trim()).filter(Boolean);
    if (recipients.length) await release({ recipients });
  };
  return element("div", { class: "wide" },
    element("div", { class: "actions" },
      button("Show text", show("text")),
      button("Show source", show("source")),
      element("a", { class: "button", href: path + "/source", download: entry.id + ".eml" }, "Save source"),
      button("Release", () => release(), { class: "main" }),
      button("Other recipients…", releaseTo),
      entry.sender ? button("Allow sender", async () => (await ask(SAID, "POST", path + "/allow-sender", undefined, (result) => `Mail from ${result.sender} passes from now on.`)) && loadSenders()) : null,
      button("Learn as spam", learn("spam")),
      button("Learn as ham", learn("ham")),
      element("a", { class: "button", href: itemLink("quarantine", entry.id) }, "Link"),
      button("Delete", () => (deleteLater([entry.id]), goOn(entry)), { class: "danger" })),
    shown);
}

/** The message has gone: the keyboard goes on with the one below it. */
async function goOn(entry) {
  const row = $("quarantine-list").querySelector(`[data-id="${entry.id}"]`);
  const next = row?.nextElementSibling ?? row?.previousElementSibling;
  await loadQuarantine();
  (next?.querySelector("summary") ?? $("content")).focus();
}

// --- Several at once -----------------------------------------------------------------------------

/** A box before the row, which chooses the message for what is done with several. */
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
  for (const control of $("quarantine-bulk").querySelectorAll("button.bulk")) {
    control.isOff = () => chosen.size === 0;
    control.disabled = control.isOff();
  }
  $("quarantine-chosen").textContent = chosen.size ? `${plural(chosen.size, "message")} chosen` : "";
}

function chooseAll() {
  const boxes = [...$("quarantine-list").querySelectorAll(".choose")];
  const all = boxes.every((box) => box.checked);
  for (const box of boxes) {
    box.checked = !all;
    box.dispatchEvent(new Event("change"));
  }
}

/** Asks first, then goes through the chosen ones; those that fail stay chosen. */
const withChosen = (words, act) => async () => {
  const ids = [...chosen];
  if (!confirm(`${words} ${plural(ids.length, "message")}?`)) return;
  let done = 0;
  for (const id of ids) {
    if (!(await act("/admin/quarantine/" + id))) continue;
    done += 1;
    chosen.delete(id);
  }
  if (done === ids.length) $(SAID).textContent = `${words}: ${number(done)} done.`;
  else $(SAID).textContent = `${words}: ${number(done)} of ${number(ids.length)} done. ${$(SAID).textContent}`;
  await loadQuarantine();
};

// --- Deleting ------------------------------------------------------------------------------------
// The server is asked when the time to undo is over, so that nothing needs to be brought back. A page
// that is closed before has deleted nothing.

function deleteLater(ids) {
  for (const id of ids) {
    leaving.add(id);
    chosen.delete(id);
  }
  clearTimeout(leavingTimer);
  leavingTimer = setTimeout(() => deleteNow(), UNDO_MS);
  showLeaving();
}

function showLeaving() {
  $("quarantine-leaving").hidden = leaving.size === 0;
  $("leaving-said").textContent = leaving.size ? `${plural(leaving.size, "message")} will be deleted in ${UNDO_MS / 1000} seconds.` : "";
}

async function undo() {
  clearTimeout(leavingTimer);
  const count = leaving.size;
  leaving.clear();
  showLeaving();
  say(SAID, `${plural(count, "message")} stay${count === 1 ? "s" : ""} in quarantine.`);
  await loadQuarantine();
  $("content").focus();
}

async function deleteNow() {
  clearTimeout(leavingTimer);
  const ids = [...leaving];
  let done = 0;
  for (const id of ids) {
    if (await ask(SAID, "DELETE", "/admin/quarantine/" + id)) done += 1;
    leaving.delete(id);
  }
  showLeaving();
  const failed = done < ids.length ? ` ${number(ids.length - done)} failed: ${$(SAID).textContent}` : "";
  say(SAID, `Deleted: ${plural(done, "message")}.${failed}`, failed !== "");
  await loadQuarantine();
}

function startBulk() {
  $("choose-all").addEventListener("click", chooseAll);
  $("quarantine-bulk").append(
    button("Release", withChosen("Release", (path) => ask(SAID, "POST", path + "/release")), { class: "bulk" }),
    button("Learn as spam", withChosen("Learn as spam", (path) => ask(SAID, "POST", path + "/learn?as=spam")), { class: "bulk" }),
    button("Learn as ham", withChosen("Learn as ham", (path) => ask(SAID, "POST", path + "/learn?as=ham")), { class: "bulk" }),
    button("Delete", () => (deleteLater([...chosen]), loadQuarantine()), { class: "bulk danger" }));
  $("leaving-undo").addEventListener("click", undo);
  $("leaving-now").addEventListener("click", deleteNow);
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
  for (const id of chosen) if (!stays.has(id)) chosen.delete(id);
  arrange($("quarantine-list"), kept.map((entry) => {
    if (before.has(entry.id)) return before.get(entry.id);
    const row = messageRow(entry);
    row.addEventListener("toggle", () => row.querySelector(".story")?.prepend(actions(entry)), { once: true });
    return element("div", { class: "chosen", "data-id": entry.id }, chooser(entry), row);
  }));
  showChosen();
}

export async function loadQuarantine() {
  const query = new URLSearchParams({ search: $("quarantine-search").value.trim(), sort: $("quarantine-sort").value, skip: skipped, count: COUNT });
  const answer = await fetch("/admin/quarantine?" + query);
  if (!answer.ok) return;
  const { messages, found: matching, total: all } = await answer.json();
  const kept = messages.filter(({ id }) => !leaving.has(id));
  found = matching - (messages.length - kept.length);
  const total = all - leaving.size;
  drawIn($("quarantine-list"), () => showKept(kept));
  for (const id of ["quarantine-count", "quarantine-badge"]) $(id).textContent = number(total);
  $("quarantine-pages").textContent = found ? `${number(skipped + 1)} to ${number(skipped + kept.length)} of ${number(found)}` : "";
  $("quarantine-before").disabled = skipped === 0;
  $("quarantine-after").disabled = skipped + kept.length >= found;
  $("quarantine-badge").hidden = total === 0;
  $("no-quarantine").hidden = kept.length > 0;
  $("no-quarantine").textContent = total ? "No message matches." : "The quarantine is empty.";
}

/** One message, opened. */
export async function showEntry(id) {
  $("quarantine-search").value = id;
  skipped = 0;
  await loadQuarantine();
  const row = $("quarantine-list").querySelector(`[data-id="${CSS.escape(id)}"] details`);
  if (!row) return;
  row.open = true;
  row.querySelector("summary").focus();
}

function turnTo(skip) {
  skipped = Math.max(0, skip);
  loadQuarantine().catch(() => {});
}

export async function loadSenders() {
  const answer = await fetch("/admin/senders");
  if (!answer.ok) return;
  const { senders } = await answer.json();
  const remove = (address) => async () =>
    confirm(`Judge mail from ${address} like others again?`) && (await ask(SAID, "DELETE", "/admin/senders/" + encodeURIComponent(address), undefined, () => `${address} is judged like others again.`)) && loadSenders();
  fill("senders", senders.map((address) => [cell(mono(address)), cell(button("Remove", remove(address), { "aria-label": "Remove " + address }), "number")]));
}

export function startQuarantine() {
  startBulk();
  $("find-quarantine").addEventListener("submit", (event) => {
    event.preventDefault();
    turnTo(0);
  });
  $("quarantine-sort").addEventListener("change", () => turnTo(0));
  $("quarantine-before").addEventListener("click", () => turnTo(skipped - COUNT));
  $("quarantine-after").addEventListener("click", () => turnTo(skipped + COUNT));
  $("add-sender").addEventListener("submit", async (event) => {
    event.preventDefault();
    const address = $("allowed-sender").value.trim();
    const done = await ask(SAID, "PUT", "/admin/senders/" + encodeURIComponent(address), undefined, () => `Mail from ${address} passes from now on.`);
    if (!done) return;
    $("allowed-sender").value = "";
    await loadSenders();
  });
}
