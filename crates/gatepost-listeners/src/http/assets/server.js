// The server itself: the latest lines of its log, and the settings in force with their origins.

import { $, cell, element, fill, mono, plural, request, say, when } from "./page.js";

const LINES = 100;
/** The interval at which new lines are requested while the view is shown. */
const AGAIN_MS = 5_000;
const WRITTEN_FIRST = (a, b) => (a.origin === "default") - (b.origin === "default") || a.key.localeCompare(b.key);

let lastLine = 0;

/** The answer as JSON, or null with the reason in `id`. */
async function read(id, path) {
  const answer = await request(path).catch(() => null);
  if (answer?.ok) return answer.json();
  say(id, answer ? `The server answered ${answer.status}.` : "The server does not answer.", true);
  return null;
}

function line({ unix_ms, level, target, text, fields }) {
  const values = fields.map(([name, value]) => element("span", { class: "quiet mono", dir: "auto" }, ` ${name}=${value}`));
  return element("li", { class: "log-" + level },
    element("time", { class: "quiet", datetime: new Date(unix_ms).toISOString() }, when(unix_ms)), element("b", {}, level),
    element("span", { class: "quiet" }, target.replace(/^gatepost::(serve::)?/, "")), element("span", { dir: "auto" }, text, ...values));
}

async function loadLog() {
  const query = new URLSearchParams({ level: $("log-level").value, search: $("log-search").value.trim(), count: LINES });
  const found = await read("log-status", "/admin/log?" + query);
  if (!found) return;
  say("log-status", "");
  const newest = `${query} ${found.lines[0]?.number}`;
  if (newest === lastLine) return;
  lastLine = newest;
  $("no-log").hidden = found.lines.length > 0;
  $("log-lines").replaceChildren(...found.lines.map(line));
}

function setting({ key, value, origin, description, after_restart: later }) {
  const place = element("p", { class: "quiet", title: origin }, origin.slice(origin.lastIndexOf("/") + 1));
  return [
    cell(element("div", {}, element("b", { class: "mono" }, key), element("p", { class: "quiet" }, description))),
    cell(element("div", {}, mono(value), later == null ? null : element("p", { class: "warn" }, "after a restart: ", mono(later)), place))];
}

async function loadSettings() {
  const onlyWritten = $("settings-written").checked;
  const query = new URLSearchParams({ search: $("settings-search").value.trim() });
  const found = await read("settings-status", "/admin/settings?" + query);
  if (!found) return;
  const shown = found.settings.filter(({ origin, after_restart: later }) => !onlyWritten || origin !== "default" || later != null).sort(WRITTEN_FIRST);
  fill("settings", shown.map(setting));
  const waiting = shown.filter(({ after_restart: later }) => later != null).length;
  const needs = waiting ? `; ${plural(waiting, "change")} will take effect at the next start` : "";
  say("settings-status", `${plural(shown.length, "setting")} of ${found.total} shown${needs}`);
}

let again = 0;

export async function loadServer() {
  clearInterval(again);
  again = setInterval(() => ($("view-server").hidden ? clearInterval(again) : loadLog().catch(() => {})), AGAIN_MS);
  await Promise.all([loadLog(), loadSettings()]);
}

export function startServer() {
  for (const [form, load] of [["find-log", loadLog], ["find-settings", loadSettings]]) {
    $(form).addEventListener("submit", (event) => {
      event.preventDefault();
      load().catch(() => {});
    });
    $(form).addEventListener("change", () => load().catch(() => {}));
  }
}
