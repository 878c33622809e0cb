// The rules: the most frequent, the slowest, those that cannot run; and the reload.

import { $, ask, cell, dayAndTime, element, figure, fill, linked, mono, number, plural, request, table } from "./page.js";
import { loadScores, startScores } from "./scores.js";

const STATUS = "rules-status";
const NAMES_SHOWN = 50;

const REFUSED = { reload: "The reload", procedures: "The change of the procedures" };

function showInForce(inForce) {
  $("in-force").textContent = `In force since ${dayAndTime(inForce.since_unix_ms)}.`;
  $("refused").replaceChildren(...inForce.refused.map((refusal) => element("div", {},
    element("p", {}, `${REFUSED[refusal.what]} of ${dayAndTime(refusal.unix_ms)} was refused:`),
    element("ul", { class: "problems wrong" }, ...refusal.problems.map((problem) => element("li", {}, problem))))));
}

function showSilent(lists) {
  $("silent-lists").replaceChildren(...lists.map((silent) => element("p", { class: "wrong" },
    "The DNS list ", mono(silent.list), ` does not answer; ${plural(silent.skipped, "query", "queries")} omitted since.`)));
}

function showBayes(bayes) {
  if (!bayes) return;
  const { spam, ham, tokens, is_ready: isReady, spam_min: spamMin, ham_min: hamMin } = bayes;
  const needs = isReady ? "" : `; it judges from ${number(spamMin)} spam and ${number(hamMin)} ham on`;
  $("bayes").replaceChildren(`Bayes has learned ${number(spam)} spam and ${number(ham)} ham, ${plural(tokens, "token")}${needs}. `,
    element("a", { href: "#history" }, "Learned over time"));
}

export async function loadRules() {
  loadScores().catch(() => {});
  const answer = await request("/admin/rules?count=200");
  if (!answer.ok) return;
  const rules = await answer.json();
  showInForce(rules.in_force);
  showSilent(rules.silent_lists);
  showBayes(rules.bayes);
  $("rules-running").textContent = `${number(rules.running)} run, ${number(rules.not_running)} cannot`;
  const most = rules.most_hit.slice(0, 30);
  const top = most[0]?.messages ?? 1;
  fill("most-hit", most.map((rule) => [
    cell(element("span", { class: "share" }, linked("rule", rule.name), element("meter", { min: 0, max: top, value: rule.messages, "aria-hidden": "true" }))),
    figure(rule.messages), cell((rule.score / rule.messages).toFixed(1), "number")]));
  fill("cannot-run", rules.problems.map((problem) => [
    cell(element("span", {}, mono(problem.rule ?? "(line)"), element("br"), element("span", { class: "quiet mono" }, `${problem.file}:${problem.line}`))),
    cell(element("span", {}, problem.reason, problem.fix ? element("span", { class: "quiet" }, " " + problem.fix) : null))]));
  const more = rules.problems_total - rules.problems.length;
  $("cannot-run-more").textContent = more > 0 ? `and ${number(more)} more: gatepost check --rules names all` : "";
}

async function measure() {
  const result = await ask(STATUS, "GET", "/admin/rules/slowest?count=20", undefined, (result) =>
    result.mails ? `Measured on the ${plural(result.mails, "mail")} kept last.` : "No mail has been kept to measure on yet.");
  if (result) fill("slowest-rules", result.rules.map((rule) => [cell(mono(rule.name)), cell(rule.microseconds.toFixed(1) + " µs", "number")]));
}

function differences(report) {
  const lines = report.settings.map(({ key, before, after, needs_restart: later }) => [
    cell("Setting " + (before == null ? "added" : after == null ? "removed" : "changed")),
    cell(later ? "at the next start" : "", "number"),
    cell(element("span", {}, mono(key), ": ", mono(before ?? "none"), " → ", mono(after ?? "none")))]);
  for (const [what, changed] of [["Rules", report.rules], ["Procedures", report.procedures], ["Scopes", report.scopes]]) {
    for (const kind of ["added", "removed", "changed"]) {
      const names = changed[kind];
      if (!names.length) continue;
      const shown = names.slice(0, NAMES_SHOWN).join(", ");
      const more = names.length > NAMES_SHOWN ? ` and ${number(names.length - NAMES_SHOWN)} more` : "";
      lines.push([cell(`${what} ${kind}`), cell(number(names.length), "number"), cell(mono(shown + more))]);
    }
  }
  return lines;
}

async function reload(onlyChecks) {
  const report = await ask(STATUS, "POST", "/admin/reload" + (onlyChecks ? "?check=1" : ""), undefined, (result) => {
    if (!result.possible) return "There is a mistake in the config; the running configuration remains in use.";
    const changes = differences(result).length;
    if (result.applied) return changes ? "Reloaded. Changes:" : "Reloaded. Nothing has changed.";
    return changes ? "A reload would make these changes:" : "A reload would change nothing.";
  });
  if (!report) return;
  const lines = differences(report);
  const problems = report.problems.map((problem) => element("li", {}, problem));
  $("difference").replaceChildren(
    ...(lines.length ? [table("Differences", [["What"], ["How many", "number"], ["Which"]], lines)] : []),
    ...(problems.length ? [element("ul", { class: report.possible ? "problems" : "problems wrong" }, ...problems)] : []));
  if (!onlyChecks) await loadRules();
}

export function startRules() {
  startScores();
  for (const [id, act] of [["check-reload", () => reload(true)], ["reload", () => reload(false)], ["measure", measure]]) {
    $(id).addEventListener("click", async () => {
      $(id).disabled = true;
      await act().catch(() => {});
      $(id).disabled = false;
    });
  }
}
