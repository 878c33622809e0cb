// The operator's procedures: read, and where the server permits it, tried on stored messages and changed.

import { $, ask, cell, element, mono, plural, request, say, table } from "./page.js";

const API = "/admin/procedures/files";
const STATUS = "editor-status";
const NEW_TEXT = `return function(message, arguments)\n\t-- return "quarantine", "the reason"\nend\n`;

let isEditable = false;
let opened = null;

const pathOf = (path) => API + path.split("/").map(encodeURIComponent).join("/");
const isChanged = () => opened != null && $("editor-text").value !== opened.text;

/** The path and the text of the editor, if it differs from the text in force; else null. */
export const editedText = () => (isEditable && isChanged() ? [opened.path, $("editor-text").value] : null);

function row({ path, file, scopes }) {
  const open = element("button", { type: "button", class: "link mono", "aria-current": opened?.path === path ? "true" : null }, path);
  open.addEventListener("click", () => openFile(path).catch(() => {}));
  return element("li", {}, file ? open : mono(path),
    element("span", { class: "quiet" }, " " + [file ? "" : "built in", scopes.length ? "run by " + scopes.join(", ") : ""].filter(Boolean).join(", ")));
}

export async function loadProcedures() {
  const answer = await request(API);
  if (!answer.ok) return;
  const { editable, procedures } = await answer.json();
  isEditable = editable;
  $("editor-permission").hidden = editable;
  for (const id of ["editor-try", "editor-activate", "editor-undo", "new-procedure"]) $(id).hidden = !editable;
  $("editor-text").readOnly = !editable;
  const own = (one) => one.file == null;
  $("procedure-list").replaceChildren(...procedures.sort((a, b) => own(a) - own(b) || a.path.localeCompare(b.path)).map(row));
}

function showFile(file) {
  opened = file;
  $("editor").hidden = false;
  $("editor-title").textContent = file.path;
  $("editor-file").textContent = file.file ?? "a new procedure";
  $("editor-text").value = file.text;
  $("editor-undo").disabled = !file.can_undo;
  $("editor-result").replaceChildren();
}

async function openFile(path) {
  if (isChanged() && !confirm(`Discard the changes of ${opened.path}?`)) return;
  const file = await ask("procedures-status", "GET", pathOf(path), undefined, () => "");
  if (!file) return;
  showFile(file.file ? file : { ...file, text: NEW_TEXT });
  say(STATUS, "");
  await loadProcedures();
  $("editor").scrollIntoView({ block: "nearest" });
  $("editor-text").focus();
}

/** Selects a line of the text. */
function goToLine(line) {
  const text = $("editor-text");
  const lines = text.value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  text.scrollTop = (text.scrollHeight * (line - 3)) / lines.length;
}

export function problemRow({ line, text, is_error: isError }) {
  const words = element("span", { class: isError ? "wrong" : undefined }, (isError ? "Error: " : "Warning: ") + text);
  if (line == null) return element("li", {}, words);
  const jump = element("button", { type: "button", class: "link" }, `Line ${line}`);
  jump.addEventListener("click", () => goToLine(line));
  return element("li", {}, jump, " ", words);
}

const verdict = ([action, reason]) => cell(element("span", {}, element("span", { class: "badge " + action }, action), " ", element("span", { class: "quiet", dir: "auto" }, reason)));

function showTrial({ problems, messages, changed }) {
  $("editor-result").replaceChildren(
    ...(problems.length ? [element("ul", { class: "problems" }, ...problems.map(problemRow))] : []),
    ...(changed.length ? [table("Messages with another verdict", [["Message"], ["Text in force"], ["This text"]], changed.map((one) => [
      cell(element("a", { href: "#message/" + one.id, dir: "auto" }, one.name || one.id)), verdict(one.before), verdict(one.after)]))] : []));
  return messages;
}

const usable = (trial) => !trial.problems.some((problem) => problem.is_error);

async function tryText() {
  const body = { action: "try", text: $("editor-text").value };
  const trial = await ask(STATUS, "POST", pathOf(opened.path), body, (trial) => {
    if (!usable(trial)) return "The text has errors.";
    if (!trial.messages) return "No error. No stored message of a scope that runs it is there to try it on.";
    return `No error. Of ${plural(trial.messages, "stored message")}, ${trial.changed.length || "none"} would get another verdict.`;
  });
  if (trial) showTrial(trial);
}

/** Reports success once the text, its version and the list are those of the server again. */
async function change(method, body, words) {
  const { path } = opened;
  const trial = await ask(STATUS, method, pathOf(path), body, (trial) => (usable(trial) ? "" : "The text has errors; the one before is still in force."));
  if (!trial) return;
  if (usable(trial)) {
    const file = await ask(STATUS, "GET", pathOf(path));
    if (!file) return;
    showFile(file.file || method === "PUT" ? file : { ...file, text: NEW_TEXT });
    await loadProcedures();
  }
  showTrial(trial);
  if (usable(trial)) say(STATUS, words);
}

const ACTIONS = {
  "editor-try": tryText,
  "editor-activate": () => change("PUT", { text: $("editor-text").value, version: opened.version }, "The text is in force."),
  "editor-undo": () => change("POST", { action: "undo" }, "The text before the last change is in force."),
};

export function startProcedures() {
  for (const [id, act] of Object.entries(ACTIONS)) {
    $(id).addEventListener("click", async () => {
      for (const other of Object.keys(ACTIONS)) $(other).disabled = true;
      await act().catch(() => {});
      for (const other of Object.keys(ACTIONS)) $(other).disabled = other === "editor-undo" && !opened.can_undo;
    });
  }
  $("editor-text").addEventListener("keydown", (event) => {
    if (!isEditable || !(event.ctrlKey || event.metaKey) || event.key !== "Enter") return;
    event.preventDefault();
    $("editor-try").click();
  });
  $("new-procedure").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = $("new-procedure-path").value.trim();
    openFile(name.startsWith("/") ? name : "/" + name).then(() => $("new-procedure").reset()).catch(() => {});
  });
  addEventListener("beforeunload", (event) => isChanged() && event.preventDefault());
}
