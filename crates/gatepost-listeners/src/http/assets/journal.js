// The search through the whole journal: its result replaces the recent messages, a page at a time,
// until the user returns to them.

import { $, dayAndTime, plural, request } from "./page.js";
import { messageRow, missing } from "./messages.js";

const COUNT = 100;
/** The fields named as the API's parameters. */
const CONDITIONS = ["search", "verdict", "rule", "topic", "sender", "node"];

/** The conditions of the present result, and the start of its next page. */
let shown = null;
/** Only the answer to the last request counts. */
let latest = 0;

function conditions() {
  const query = new URLSearchParams();
  for (const name of CONDITIONS) {
    const value = $(name).value.trim();
    if (value) query.set(name, value);
  }
  const seconds = (id) => Math.floor(new Date($(id).value).getTime() / 1000);
  const period = $("period").value;
  if (period === "between") {
    if ($("since").value) query.set("since", seconds("since"));
    if ($("until").value) query.set("until", seconds("until"));
  } else if (period) query.set("since", period);
  return query;
}

function say(words, isWrong = false) {
  $("found-status").textContent = words;
  $("found-status").classList.toggle("wrong", isWrong);
}

async function load(before) {
  const query = new URLSearchParams(shown.query);
  query.set("count", COUNT);
  if (before) query.set("before", before);
  const sequence = (latest += 1);
  say("Searching…");
  $("found-more").hidden = true;
  const answer = await request("/admin/messages?" + query).catch(() => null);
  const reply = await answer?.json().catch(() => null);
  if (sequence !== latest) return;
  if (!answer?.ok) {
    say(reply?.detail ?? reply?.reason ?? "The server does not answer.", true);
    return;
  }
  $("found").append(...reply.messages.map(messageRow));
  shown.next = reply.next;
  const count = $("found").childElementCount;
  const words = count ? plural(count, "message") : "No message matches";
  // A short page with more to come: the search stopped at its time limit.
  const isPartial = reply.next && reply.messages.length < COUNT;
  const without = missing(reply);
  const result = reply.next
    ? isPartial ? `${words} so far; searched back to ${dayAndTime(reply.next_unix_ms)}.` : `The newest ${words}; there are more.`
    : count ? `${words}: all that match in the journal.` : "No message in the journal matches.";
  say([result, without].filter(Boolean).join(" "), without !== "");
  $("found-more").textContent = isPartial ? "Continue search" : "Show older ones";
  $("found-more").hidden = !reply.next;
}

function showResult(isShown) {
  $("found-part").hidden = !isShown;
  $("recent-part").hidden = isShown;
  $("messages-title").textContent = isShown ? "Messages found" : "Recent messages";
  $("pause").hidden = isShown;
  if (isShown) return;
  shown = null;
  latest += 1;
  $("found").replaceChildren();
}

function search() {
  shown = { query: conditions(), next: null };
  $("found").replaceChildren();
  showResult(true);
  return load();
}

/** The messages that a rule hit. */
export async function showRule(name) {
  $("filters").reset();
  $("rule").value = name;
  $("rule").closest("details").open = true;
  await search();
  $("found").focus();
}

/** One message, opened, however old it is. */
export async function showMessage(id) {
  const sequence = (latest += 1);
  showResult(true);
  $("found").replaceChildren();
  $("found-more").hidden = true;
  say("Searching…");
  const answer = await request("/admin/messages/" + encodeURIComponent(id)).catch(() => null);
  const entry = answer?.ok ? await answer.json() : null;
  if (sequence !== latest) return;
  // A node that does not answer may have it.
  const unknown = answer?.status === 503 ? (await answer.json().catch(() => null))?.detail : null;
  if (!entry) return say(unknown ?? (answer ? `There is no message ${id}, or no longer.` : "The server does not answer."), true);
  const row = messageRow(entry);
  $("found").append(row);
  say("");
  row.open = true;
  row.querySelector("summary").focus();
}

export function startJournal() {
  $("filters").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  $("found-more").addEventListener("click", () => load(shown?.next));
  $("found-close").addEventListener("click", () => {
    showResult(false);
    $("search").focus();
  });
  $("period").addEventListener("change", () => {
    $("between").hidden = $("period").value !== "between";
  });
}
