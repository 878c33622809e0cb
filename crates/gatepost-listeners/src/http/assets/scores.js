// The rules by name and description, and their scores, which can be changed.

import { $, ask, button, cell, element, fill, linked, number, plural, request } from "./page.js";

const API = "/admin/scores";
const STATUS = "scores-status";
const PAGE = 25;
let skip = 0;

const pathOf = (name) => `${API}/${encodeURIComponent(name)}`;

function outcome(report, words) {
  return report.possible ? words : `Nothing has changed: ${report.problems.join("; ")}`;
}

async function change(method, path, body, words) {
  const report = await ask(STATUS, method, path, body, (report) => outcome(report, words));
  if (report) await loadScores();
}

function row(rule) {
  const input = element("input", { type: "number", step: "any", min: -1000, max: 1000, value: rule.score, "aria-label": `Score of ${rule.name}` });
  const save = button("Set", async () => {
    const score = input.valueAsNumber;
    if (Number.isFinite(score)) await change("PUT", pathOf(rule.name), { score }, `${rule.name} scores ${score} from now on.`);
    else input.reportValidity();
  }, { "aria-label": `Set the score of ${rule.name}` });
  const reset = rule.set == null ? null : button("Reset", () => change("DELETE", pathOf(rule.name), undefined, `${rule.name} has the score of its rule file again.`), { "aria-label": `Reset the score of ${rule.name}` });
  return [
    cell(element("span", {}, linked("rule", rule.name), element("br"), element("span", { class: "quiet" }, rule.description ?? ""))),
    cell(element("div", { class: "actions score-edit" }, input, save, reset))];
}

export async function loadScores() {
  const query = new URLSearchParams({ search: $("score-search").value.trim(), count: PAGE, skip });
  const answer = await request(`${API}?${query}`).catch(() => null);
  if (!answer?.ok) return;
  const found = await answer.json();
  fill("scores", found.rules.map(row));
  $("scores-undo").disabled = !found.can_undo;
  $("scores-before").disabled = skip === 0;
  $("scores-after").disabled = skip + PAGE >= found.found;
  $("scores-pages").textContent = found.found ? `${number(skip + 1)} to ${number(Math.min(skip + PAGE, found.found))} of ${plural(found.found, "rule")}` : "";
}

export function startScores() {
  $("find-score").addEventListener("submit", (event) => {
    event.preventDefault();
    skip = 0;
    loadScores();
  });
  for (const [id, step] of [["scores-before", -PAGE], ["scores-after", PAGE]]) {
    $(id).addEventListener("click", () => {
      skip = Math.max(0, skip + step);
      loadScores();
    });
  }
  $("scores-undo").addEventListener("click", () => change("POST", API, { action: "undo" }, "The scores before the last change are in force."));
}
