// The messages in quarantine, and the senders whose mail passes.

import { $, ask, button, cell, element, fill, mono, number, plural } from "./page.js";
import { messageRow } from "./messages.js";

const SAID = "quarantine-said";
/** How long events are gathered before the list is requested again. */
const GATHER_MS = 500;
const LEARNED = { new: "Learned", changed: "Learned again", before: "Known before", off: "Bayes is switched off" };

function actions(entry) {
  const path = "/admin/quarantine/" + entry.id;
  const shown = element("pre", { class: "source", tabindex: "0", hidden: "", "aria-label": "What the message says" });
  // As text, whatever it holds: a quarantined message is hostile until proven otherwise.
  const show = (field) => async () => {
    const message = await ask(SAID, "GET", path);
    if (!message) return;
    shown.textContent = message[field] || "(nothing)";
    shown.hidden = false;
  };
  const learn = (lesson) => () => ask(SAID, "POST", `${path}/learn?as=${lesson}`, undefined, (result) => `${LEARNED[result.learned]}: ${lesson}.`);
  return element("div", { class: "wide" },
    element("div", { class: "actions" },
      button("Show text", show("text")),
      button("Show source", show("source")),
      element("a", { class: "button", href: path + "/source", download: entry.id + ".eml" }, "Save source"),
      button("Release", async () => (await ask(SAID, "POST", path + "/release", undefined, (result) => `Released to ${plural(result.subscribers, "subscriber")}.`)) && goOn(entry), { class: "main" }),
      entry.sender ? button("Allow sender", async () => (await ask(SAID, "POST", path + "/allow-sender", undefined, (result) => `Mail from ${result.sender} passes from now on.`)) && loadSenders()) : null,
      button("Learn as spam", learn("spam")),
      button("Learn as ham", learn("ham")),
      button("Delete", async () => (await ask(SAID, "DELETE", path, undefined, () => "Deleted.")) && goOn(entry), { class: "danger" })),
    shown);
}

/** The message has gone: the keyboard goes on with the one below it. */
async function goOn(entry) {
  const row = $("quarantine-list").querySelector(`[data-id="${entry.id}"]`);
  const next = row?.nextElementSibling ?? row?.previousElementSibling;
  await loadQuarantine();
  (next?.querySelector("summary") ?? $("content")).focus();
}

/** Brings the list into this order. Rows that stay are not touched: somebody may read or use them. */
function arrange(list, rows) {
  const stays = new Set(rows);
  for (const row of [...list.children]) if (!stays.has(row)) row.remove();
  rows.forEach((row, place) => {
    if (list.children[place] !== row) list.insertBefore(row, list.children[place] ?? null);
  });
}

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

export async function loadQuarantine() {
  const answer = await fetch("/admin/quarantine");
  if (!answer.ok) return;
  const { messages: kept } = await answer.json();
  const before = new Map([...$("quarantine-list").children].map((row) => [row.dataset.id, row]));
  arrange($("quarantine-list"), kept.map((entry) => {
    if (before.has(entry.id)) return before.get(entry.id);
    const row = messageRow(entry);
    row.addEventListener("toggle", () => row.querySelector(".story")?.append(actions(entry)), { once: true });
    return row;
  }));
  for (const id of ["quarantine-count", "quarantine-badge"]) $(id).textContent = number(kept.length);
  $("quarantine-badge").hidden = kept.length === 0;
  $("no-quarantine").hidden = kept.length > 0;
}

export async function loadSenders() {
  const answer = await fetch("/admin/senders");
  if (!answer.ok) return;
  const { senders } = await answer.json();
  const remove = (address) => async () =>
    (await ask(SAID, "DELETE", "/admin/senders/" + encodeURIComponent(address), undefined, () => `${address} is judged like others again.`)) && loadSenders();
  fill("senders", senders.map((address) => [cell(mono(address)), cell(button("Remove", remove(address), { "aria-label": "Remove " + address }), "number")]));
}

export function startQuarantine() {
  $("add-sender").addEventListener("submit", async (event) => {
    event.preventDefault();
    const address = $("sender").value.trim();
    const done = await ask(SAID, "PUT", "/admin/senders/" + encodeURIComponent(address), undefined, () => `Mail from ${address} passes from now on.`);
    if (!done) return;
    $("sender").value = "";
    await loadSenders();
  });
}
