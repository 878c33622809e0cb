// The senders that the user of this page allows and blocks for their own mailbox.
import { $, ask, button, cell, fill, mono } from "./page.js";

const API = "/v1/senders";
const STATUS = "status";
const WORDS = { allow: "accepted", block: "quarantined" };
const pathOf = (entry) => `${API}/${encodeURIComponent(entry)}`;

function show(answer) {
  if (!answer) return;
  $("user").textContent = answer.user;
  fill("entries", answer.entries.map(({ entry, list }) => [
    cell(mono(entry)), cell(WORDS[list]),
    cell(button("Remove", () => remove(entry), { "aria-label": `Remove ${entry}` }), "number")]));
}

async function remove(entry) {
  show(await ask(STATUS, "DELETE", pathOf(entry), undefined, () => `${entry} is no longer listed.`));
}

$("add").addEventListener("submit", async (event) => {
  event.preventDefault();
  const list = event.submitter?.value ?? "allow";
  const entry = $("entry").value.trim();
  const answer = await ask(STATUS, "PUT", `${pathOf(entry)}?list=${list}`, undefined, () => `Mail of ${entry} is ${WORDS[list]} from now on.`);
  show(answer);
  if (answer) $("entry").value = "";
});

show(await ask(STATUS, "GET", API));
