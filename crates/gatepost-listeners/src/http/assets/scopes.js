// A scope tried on one message, with a changed text of the editor: its verdict, its steps and the rules that
// matched. Nothing is delivered.

import { $, ask, cell, element, mono, request, table } from "./page.js";
import { editedText, problemRow } from "./procedures.js";

const API = "/admin/scopes";
const STATUS = "trial-status";

const option = (value, words) => element("option", { value }, words);

/** Keeps what is chosen, if it is still there. */
function setOptions(id, options) {
  const { value } = $(id);
  $(id).replaceChildren(...options);
  if (options.some((one) => one.value === value)) $(id).value = value;
}

function showInputs() {
  for (const input of $("scope-trial").querySelectorAll(".of-text")) input.hidden = $("trial-stored").value !== "";
}

export async function loadScopes() {
  const answer = await request(API);
  if (!answer.ok) return;
  const { scopes, messages } = await answer.json();
  setOptions("trial-scope", scopes.map(({ path, run }) => option(path, `${path}: ${run.join(", ")}`)));
  setOptions("trial-stored", [option("", "The text below"), ...messages.map(({ id, name }) => option(id, name || id))]);
  showInputs();
}

const badge = (action) => element("span", { class: "badge " + action }, action);

function show({ problems, steps, verdict }) {
  const hits = verdict?.hits ?? [];
  const points = verdict?.score == null ? "" : ` ${verdict.score.toFixed(1)} of ${verdict.required.toFixed(1)} points`;
  const step = ({ procedure, verdict: own, has_failed: hasFailed }) => [cell(mono(procedure)),
    cell(own ? element("span", {}, badge(own), hasFailed ? " it failed; the log has the reason" : "") : element("span", { class: "quiet" }, "not run"))];
  $("trial-result").replaceChildren(
    ...(problems.length ? [element("ul", { class: "problems" }, ...problems.map(problemRow))] : []),
    ...(verdict ? [
      element("p", {}, badge(verdict.verdict), element("b", {}, points), verdict.procedure ? " by " : "", verdict.procedure ? mono(verdict.procedure) : ""),
      ...(verdict.reason ? [element("p", { class: "quiet", dir: "auto" }, verdict.reason)] : []),
      table("Steps", [["Procedure"], ["Verdict"]], steps.map(step)),
      ...(hits.length ? [table("Rules that matched", [["Rule"], ["Score", "number"]], hits.map((hit) => [cell(mono(hit.name)), cell(hit.score.toFixed(1), "number")]))] : []),
      ...(verdict.tags ? [table("Added fields", [["Name"], ["Value"]], verdict.tags.map(([name, value]) => [cell(mono(name)), cell(value)]))] : []),
    ] : []));
}

async function tryScope(event) {
  event.preventDefault();
  const [stored, topic] = [$("trial-stored").value, $("trial-topic").value.trim()];
  const text = $("trial-text").value;
  const recipients = [$("trial-recipient").value.trim()].filter(Boolean);
  const message = stored ? { id: stored } : topic ? { topic, text } : { text: text.replaceAll(/\r?\n/g, "\r\n"), sender: $("trial-sender").value.trim(), recipients };
  const edited = editedText();
  const path = $("trial-scope").value.slice(1).split("/").map(encodeURIComponent).join("/");
  $("trial-result").replaceChildren();
  const trial = await ask(STATUS, "POST", `${API}/${path}`, edited ? { ...message, edited } : message, ({ verdict }) => {
    if (!verdict) return "The text in the editor has errors.";
    return edited ? `Tried with the text of ${edited[0]} in the editor.` : "Tried with the procedures in force.";
  });
  if (trial) show(trial);
}

export function startScopes() {
  $("scope-trial").addEventListener("submit", (event) => tryScope(event).catch(() => {}));
  $("trial-stored").addEventListener("change", showInputs);
}
