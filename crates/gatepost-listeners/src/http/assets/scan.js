// A mail that is pasted or chosen as a file: judged by the rules, with the hits of each. The mail
// is not published or kept.

import { $, cell, element, mono, request, table } from "./page.js";

/** The largest mail that is scanned here; larger ones are for `gatepost scan`. */
const MAIL_BYTES_MAX = 20_000_000;

function say(words, isWrong) {
  $("scan-status").textContent = words;
  $("scan-status").classList.toggle("wrong", isWrong);
}

function explain(verdict) {
  const hits = [...(verdict.hits ?? [])].sort((a, b) => Math.abs(b.score) - Math.abs(a.score));
  const score = verdict.score == null ? "" : ` ${verdict.score.toFixed(1)} of ${verdict.required.toFixed(1)} points`;
  $("scan-result").replaceChildren(
    element("p", {}, element("span", { class: "badge " + verdict.verdict }, verdict.verdict), element("b", {}, score)),
    verdict.reason ? element("p", { class: "quiet", dir: "auto" }, verdict.reason) : "",
    hits.length
      ? table("Rules that matched", [["Rule"], ["Score", "number"]], hits.map((hit) => [cell(mono(hit.name)), cell(hit.score.toFixed(1), "number")]))
      : element("p", { class: "quiet" }, "No rule matched."));
}

async function scan(event) {
  event.preventDefault();
  const [file] = $("scan-file").files;
  const mail = file ?? $("scan-text").value;
  if (file?.size > MAIL_BYTES_MAX) return say("The file is too large to be scanned here: use gatepost scan.", true);
  if (!file && !mail.trim()) return say("Paste a mail or choose a file.", true);
  say("Scanning…", false);
  $("scan-result").replaceChildren();
  const options = { method: "POST", body: file ?? mail.replaceAll(/\r?\n/g, "\r\n"), headers: { "content-type": "message/rfc822" } };
  const answer = await request("/call/spamcheck", options).catch(() => null);
  const verdict = await answer?.json().catch(() => null);
  if (!verdict?.verdict) return say(verdict?.detail ?? "The server does not answer.", true);
  say("", false);
  explain(verdict);
}

export function startScan() {
  $("scan").addEventListener("submit", scan);
  // The input given last is scanned.
  $("scan-text").addEventListener("input", () => ($("scan-file").value = ""));
  $("scan-clear").addEventListener("click", () => {
    $("scan").reset();
    $("scan-result").replaceChildren();
    say("", false);
  });
}
