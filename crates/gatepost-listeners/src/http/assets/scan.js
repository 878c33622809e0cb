// A mail that is pasted or chosen as a file: judged by the rules, with the hits of each, or learned by
// Bayes. The mail is not published or kept.

import { $, LEARNED, element, hitTable, request } from "./page.js";
import { loadRules } from "./rules.js";

/** The largest mail that is scanned here; larger ones are for `gatepost scan`. */
const MAIL_BYTES_MAX = 20_000_000;

function say(words, isWrong) {
  $("scan-status").textContent = words;
  $("scan-status").classList.toggle("wrong", isWrong);
}

function explain(verdict) {
  const score = verdict.score == null ? "" : ` ${verdict.score.toFixed(1)} of ${verdict.required.toFixed(1)} points`;
  $("scan-result").replaceChildren(
    element("p", {}, element("span", { class: "badge " + verdict.verdict }, verdict.verdict), element("b", {}, score)),
    verdict.reason ? element("p", { class: "quiet", dir: "auto" }, verdict.reason) : "",
    hitTable(verdict.hits));
  for (const link of $("scan-result").querySelectorAll("td a")) describe(link).catch(() => {});
}

/** Adds what the rule is for, which only administrators may read. */
async function describe(link) {
  const name = link.textContent;
  const answer = await request("/admin/scores?" + new URLSearchParams({ search: name }));
  if (!answer.ok) return;
  const rule = (await answer.json()).rules.find((rule) => rule.name === name);
  if (rule?.description) link.after(element("br"), element("span", { class: "quiet" }, rule.description));
}

/** Sends the mail that was pasted or chosen; the answer, or null with the reason on the page. */
async function send(path, words) {
  const [file] = $("scan-file").files;
  const mail = file ?? $("scan-text").value;
  if (file?.size > MAIL_BYTES_MAX) say("The file is too large for this page: use gatepost scan and gatepost learn.", true);
  else if (!file && !mail.trim()) say("Paste a mail or choose a file.", true);
  else {
    say(words, false);
    $("scan-result").replaceChildren();
    const options = { method: "POST", body: file ?? mail.replaceAll(/\r?\n/g, "\r\n"), headers: { "content-type": "message/rfc822" } };
    const answer = await request(path, options).catch(() => null);
    return (await answer?.json().catch(() => null)) ?? {};
  }
  return null;
}

async function learn(kind) {
  const learned = await send("/admin/learn?as=" + kind, "Learning…");
  if (!learned) return;
  say(learned.learned ? `${LEARNED[learned.learned]}: ${kind}.` : learned.detail ?? "The server does not answer.", !learned.learned);
  await loadRules();
}

async function scan(event) {
  event.preventDefault();
  const verdict = await send("/call/spamcheck", "Scanning…");
  if (!verdict) return;
  if (!verdict.verdict) return say(verdict.detail ?? "The server does not answer.", true);
  say("", false);
  explain(verdict);
}

export function startScan() {
  for (const kind of ["spam", "ham"]) $("scan-" + kind).addEventListener("click", () => learn(kind).catch(() => {}));
  $("scan").addEventListener("submit", scan);
  // The input given last is scanned.
  $("scan-text").addEventListener("input", () => ($("scan-file").value = ""));
  $("scan-clear").addEventListener("click", () => {
    $("scan").reset();
    $("scan-result").replaceChildren();
    say("", false);
  });
}
