// Figures over time: one chart for each kind, with a common range and a common moment under the cursor.

import { $, arrange, bytes, cell, element, number, plural, request, shape, table } from "./page.js";

const VIEW = "view-history";
const HEIGHT = 120;
/** Room below and above the lines, for the labels; the height is that of the style sheet. */
const [FOOT, HEAD] = [16, 14];
/** The shortest pause between two requests. */
const PAUSE_MS = 10_000;
const DAY_SECONDS = 86_400;

const compact = (value) => (value !== 0 && Math.abs(value) < 10 ? String(Number(value.toPrecision(2))) : number(value));
const size = (value) => bytes(Math.round(value));
const LISTENERS = ["smtp", "lmtp", "milter", "spamd", "pop3", "mqtt", "http", "call"];
const VERDICTS = ["accept", "tag", "quarantine", "drop", "reject", "defer"];

/** Title, unit, the lines as [figure, label, class], and the format of values. */
const CHARTS = [
  ["Messages by listener", "per second", LISTENERS.map((name, place) => ["messages." + name, name, "hue-" + place]), compact],
  ["Verdicts", "per second", VERDICTS.map((name) => ["verdicts." + name, name, name]), compact],
  ["Publications and deliveries", "per second", [["publications", "publications", "hue-5"], ["deliveries", "deliveries", "hue-6"]], compact],
  ["Judge time", "milliseconds", [["judge_p50_ms", "median", "hue-5"], ["judge_p99_ms", "99th percentile", "hue-6"]], compact],
  ["Connections and sessions", "", [["connections", "connections", "hue-5"], ["sessions", "connected sessions", "hue-6"]], compact],
  ["Learned by Bayes", "messages", [["bayes_spam", "spam", "reject"], ["bayes_ham", "ham", "accept"]], compact],
  ["Tokens of Bayes", "", [["bayes_tokens", "tokens", "hue-5"]], compact],
  ["Queues of sessions", "", [["queue_bytes", "bytes in memory", "hue-5"]], size],
  ["Memory", "", [["memory_bytes", "resident", "hue-5"]], size],
  ["CPU", "cores", [["cpu_cores", "cores", "hue-5"]], compact],
];

let range = "1h";
let answer = null;
/** The place of the moment under the cursor; null for none. */
let at = null;
let timer = 0;
/** Requests are numbered, so that the answer for an earlier range is not drawn over a later one. */
let latest = 0;

const isLong = () => (answer.times_unix_ms.at(-1) - answer.times_unix_ms[0]) / 1000 > DAY_SECONDS;
const PARTS = { hour: "2-digit", minute: "2-digit" };
const moment = (unixMs) => new Date(unixMs).toLocaleString("en-GB", isLong() ? { day: "numeric", month: "short", ...PARTS } : answer.step_seconds < 60 ? { ...PARTS, second: "2-digit" } : PARTS);

/** The next of 1, 2, 5, 10, … times a power of ten above the largest value. */
function topOf(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value) ?? value;
}

/** A line with gaps where there is no sample; one missing sample is no gap, since intervals are not exact. */
function lineOf(values, width, top) {
  const step = width / Math.max(1, values.length - 1);
  let [text, last] = ["", -9];
  values.forEach((value, place) => {
    if (value == null) return;
    const y = HEIGHT - FOOT - (value / top) * (HEIGHT - FOOT - HEAD);
    const [x, starts] = [place * step, place - last > 2];
    const isAlone = starts && values[place + 1] == null && values[place + 2] == null;
    // A point without neighbours is a dash.
    text += `${starts ? "M" : "L"}${(isAlone ? x - 2 : x).toFixed(1)} ${y.toFixed(1)}${isAlone ? "h4" : ""}`;
    last = place;
  });
  return text;
}

/** The lines of a chart that have values in this range; of many lines, those that are not always zero. */
function linesOf([, , lines]) {
  const found = lines.flatMap(([name, label, kind]) => {
    const values = answer.series.find((one) => one.name === name)?.values;
    return values?.some((value) => value != null) ? [{ name, label, kind, values }] : [];
  });
  const busy = found.filter(({ values }) => values.some((value) => value > 0));
  return lines.length > 2 && busy.length ? busy : found;
}

function draw(chart, box) {
  const lines = linesOf(chart);
  box.hidden = !lines.length;
  const svg = box.querySelector("svg");
  const { width } = svg.getBoundingClientRect();
  if (!width || !lines.length) return;
  const format = chart[3];
  const top = topOf(Math.max(...lines.flatMap(({ values }) => values.map((value) => value ?? 0))));
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const parts = [0, 1].flatMap((share) => {
    const y = HEIGHT - FOOT - share * (HEIGHT - FOOT - HEAD);
    const label = shape("text", { x: 0, y: y - 4 });
    label.textContent = share ? format(top) : "";
    return [shape("line", { x1: 0, x2: width, y1: y, y2: y, class: "rule" }), label];
  });
  for (const [x, anchor, time] of [[0, "start", answer.times_unix_ms[0]], [width, "end", answer.times_unix_ms.at(-1)]]) {
    const label = shape("text", { x, y: HEIGHT - 2, "text-anchor": anchor });
    label.textContent = moment(time);
    parts.push(label);
  }
  for (const { values, kind } of lines) parts.push(shape("path", { d: lineOf(values, width, top), class: "line " + kind }));
  parts.push(shape("line", { y1: 0, y2: HEIGHT - FOOT, class: "cursor" }));
  svg.replaceChildren(...parts);
  point(chart, box);
}

/** Shows the values of the moment under the cursor, or the last ones. */
function point(chart, box) {
  const lines = linesOf(chart);
  const last = answer.times_unix_ms.length - 1;
  const place = at ?? last;
  const plot = box.querySelector(".plot");
  const cursor = box.querySelector(".cursor");
  const x = (plot.clientWidth * place) / Math.max(1, last);
  cursor?.setAttribute("x1", x);
  cursor?.setAttribute("x2", x);
  cursor?.setAttribute("visibility", at == null ? "hidden" : "visible");
  const valueAt = (values) => {
    const value = at == null ? values.findLast((one) => one != null) : values[place] ?? values[place - 1];
    return value == null ? "–" : chart[3](value);
  };
  const keys = box.querySelector("ul");
  const shown = new Map([...keys.children].map((key) => [key.dataset.name, key]));
  arrange(keys, lines.map(({ name, label, kind, values }) => {
    const key = shown.get(name) ?? element("li", { "data-name": name, class: kind }, element("span", {}, label), element("b"));
    key.querySelector("b").textContent = valueAt(values);
    return key;
  }));
  plot.setAttribute("aria-valuemax", last);
  plot.setAttribute("aria-valuenow", place);
  const words = lines.map(({ label, values }) => `${label} ${valueAt(values)}`);
  plot.setAttribute("aria-valuetext", `${moment(answer.times_unix_ms[place])}: ${words.join(", ")}`);
}

const each = (act) => CHARTS.forEach((chart, place) => act(chart, $("history-charts").children[place]));

function showMoment() {
  $("history-at").textContent = at == null
    ? "The latest values. Point at a chart, or use the arrow keys in one, for those of a moment."
    : `Values of ${new Date(answer.times_unix_ms[at]).toLocaleString("en-GB")}`;
}

function moveTo(place) {
  if (!answer) return;
  at = place == null ? null : Math.max(0, Math.min(answer.times_unix_ms.length - 1, place));
  showMoment();
  each(point);
}

function press(event) {
  if (!answer) return;
  const last = answer.times_unix_ms.length - 1;
  const now = at ?? last;
  const places = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageDown: now - 10, PageUp: now + 10, Home: 0, End: last, Escape: null };
  if (!Object.hasOwn(places, event.key) || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  moveTo(places[event.key]);
}

function drawTable() {
  const details = $("history-values");
  if (!details.open || !answer) return;
  const lines = CHARTS.flatMap((chart) => linesOf(chart).map((line) => [chart, line]));
  const columns = [["Time"], ...lines.map(([[, unit], { label }]) => [unit ? `${label}, ${unit}` : label, "number"])];
  const places = answer.times_unix_ms.map((_, place) => place).filter((place) => lines.some(([, { values }]) => values[place] != null));
  const rows = places.reverse().map((place) => [
    cell(new Date(answer.times_unix_ms[place]).toLocaleString("en-GB"), "when"),
    ...lines.map(([[, , , format], { values }]) => cell(values[place] == null ? "–" : format(values[place]), "number"))]);
  $("history-table").replaceChildren(table("Values over time, newest first", columns, rows));
}

function show() {
  const isEmpty = !answer.series.some(({ values }) => values.some((value) => value != null));
  $("history-charts").hidden = isEmpty;
  $("history-values").hidden = isEmpty;
  $("history-at").hidden = isEmpty;
  $("history-status").classList.toggle("wrong", answer.dropped > 0);
  $("history-status").textContent = answer.dropped > 0 ? `${plural(answer.dropped, "sample")} could not be stored since the start; the log has the reason.`
    : isEmpty ? "There are no figures of this time." : "";
  if (at != null) at = Math.min(at, answer.times_unix_ms.length - 1);
  if (isEmpty) return;
  showMoment();
  each(draw);
  drawTable();
}

export async function loadHistory() {
  clearTimeout(timer);
  const sequence = (latest += 1);
  const points = range === "5m" ? 30 : 240;
  const got = await request(`/admin/series?from=${range}&points=${points}`).catch(() => null);
  if (sequence !== latest) return;
  if (got?.ok) {
    answer = await got.json();
    show();
  } else {
    $("history-status").classList.add("wrong");
    $("history-status").textContent = got ? `The server answered ${got.status}.` : "The server does not answer.";
  }
  const pause = Math.max(PAUSE_MS, (answer?.step_seconds ?? 0) * 500);
  timer = setTimeout(() => { if (!$(VIEW).hidden && !document.hidden) loadHistory(); }, pause);
}

export function startHistory() {
  $("history-charts").replaceChildren(...CHARTS.map(([title, unit]) => {
    const plot = element("div", { class: "plot", role: "slider", tabindex: 0, "aria-label": unit ? `${title}, ${unit}` : title, "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0 },
      shape("svg", { class: "chart", "aria-hidden": "true" }));
    const place = (event) => {
      const { left, width } = plot.getBoundingClientRect();
      return Math.round(((event.clientX - left) / width) * (answer.times_unix_ms.length - 1));
    };
    for (const kind of ["pointermove", "pointerdown"]) plot.addEventListener(kind, (event) => answer && moveTo(place(event)));
    for (const kind of ["pointerleave", "blur"]) plot.addEventListener(kind, () => moveTo(null));
    plot.addEventListener("keydown", press);
    return element("div", {}, element("h3", {}, title, unit ? element("span", { class: "quiet" }, " " + unit) : null), plot, element("ul", { class: "keys" }));
  }));
  for (const choice of document.getElementsByName("range")) {
    choice.addEventListener("change", () => {
      range = choice.value;
      at = null;
      loadHistory();
    });
  }
  $("history-values").addEventListener("toggle", drawTable);
  addEventListener("resize", () => answer && !$(VIEW).hidden && each(draw));
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !$(VIEW).hidden) loadHistory(); });
}
