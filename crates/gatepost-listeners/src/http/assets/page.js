// Shared functions of the dashboard: elements, figures, requests to the API. The content of
// messages is inserted as text, never as markup.

export const VERDICTS = ["accept", "tag", "quarantine", "drop", "reject", "defer"];

/** The words for what Bayes did with a mail. */
export const LEARNED = { new: "Learned", changed: "Learned again", before: "Already learned", off: "Bayes is switched off" };

export const $ = (id) => document.getElementById(id);
export const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
export const number = (value) => (value >= 10_000 ? short.format(value) : whole.format(value ?? 0));
export const rate = (value) => (value > 0 && value < 10 ? value.toFixed(1) : number(value));
export const bytes = (value) => short.format(value ?? 0).replace("B", "G").replace(/([KMG]?)$/, " $1B");
// Made once: toLocaleString makes a new one each time, which takes longer than the rest of a row.
const [dayFormat, timeFormat] = [{ dateStyle: "short" }, { timeStyle: "medium" }].map((style) => new Intl.DateTimeFormat("en-GB", style));
export const time = (unixMs) => timeFormat.format(unixMs);
export const day = (unixMs) => dayFormat.format(unixMs);
export const dayAndTime = (unixMs) => `${day(unixMs)}, ${time(unixMs)}`;
/** The time, with the day unless it is today. */
export const when = (unixMs) => (day(unixMs) === day(Date.now()) ? time(unixMs) : dayAndTime(unixMs).replace(",", ""));
export const plural = (count, word, words = word + "s") => `${number(count)} ${count === 1 ? word : words}`;
export const known = (...values) => values.find((value) => value != null && value !== "");

/** An element with attributes and children; texts become text nodes. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) made.setAttribute(key, value);
  made.append(...children.filter((child) => child != null));
  return made;
}

export function shape(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** Foreign text, in its own writing direction. */
export const mono = (text) => element("span", { class: "mono", dir: "auto" }, text);
export const cell = (content, kind) => element("td", { class: kind }, content);
export const figure = (value, warns) => cell(number(value), warns && value > 0 ? "number warn" : "number");

/** The address of an item, as places.js reads it. */
export const itemLink = (kind, name) => `#${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;
/** A name as a link to its item. */
export const linked = (kind, name) => element("a", { href: itemLink(kind, name), class: "mono", dir: "auto" }, name);

// --- Drawing while the page is in use ---------------------------------------------------------------
// If an element moves or is replaced between press and release, the browser reports no click: lists and
// tables are drawn when the pointer is up. Unchanged rows are kept, and so is a selected cell.

let isPressed = false;
/** The latest postponed drawing of each place. */
const held = new Map();

/** Draws a place now, or as soon as no button of the pointer is pressed. */
export function drawIn(place, draw) {
  if (isPressed) held.set(place, draw);
  else draw();
}

function released() {
  isPressed = false;
  if (!held.size) return;
  const draws = [...held];
  held.clear();
  // The click is dispatched before.
  setTimeout(() => draws.forEach(([place, draw]) => drawIn(place, draw)));
}

addEventListener("pointerdown", () => { isPressed = true; }, true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, released, true);
addEventListener("blur", released);
// A press on a scroll bar has no release.
addEventListener("pointermove", (event) => isPressed && !event.buttons && released(), true);

function isSelected(place) {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(place, true);
}

/** Whether an element has the focus or contains the selection. */
const isInUse = (row) => row.contains(document.activeElement) || isSelected(row);

/**
 * Brings children into this order. Those that stay are not touched: they may be read. Moving one
 * would end the selection in it, so the others are moved around the one that is in use.
 */
export function arrange(list, rows) {
  const stays = new Set(rows);
  for (const row of [...list.children]) if (!stays.has(row)) row.remove();
  const fixed = Math.max(0, rows.findIndex((row) => row.parentNode === list && isInUse(row)));
  if (rows.length && rows[fixed].parentNode !== list) list.prepend(rows[fixed]);
  for (let place = fixed - 1; place >= 0; place -= 1) {
    if (rows[place].nextElementSibling !== rows[place + 1]) rows[place + 1].before(rows[place]);
  }
  for (let place = fixed + 1; place < rows.length; place += 1) {
    if (rows[place - 1].nextElementSibling !== rows[place]) rows[place - 1].after(rows[place]);
  }
}

/** The first cell of a row with a key, where its text may be that of another row too. */
export function keyed(first, ...key) {
  first.dataset.key = JSON.stringify(key);
  return first;
}

const keyOf = (first) => first.dataset.key ?? first.textContent;

/** Gives a row these cells; equal ones are kept with the focus in them, and so are selected ones. */
function renew(row, cells) {
  cells.forEach((cell, place) => {
    if (!row.cells[place].isEqualNode(cell) && !isSelected(row.cells[place])) row.cells[place].replaceWith(cell);
  });
  return row;
}

/**
 * Puts rows into a table's body; without any, its own word for that stays or returns. A row whose
 * first cell says the same as before, or has the same key, is the same row.
 */
export function fill(id, rows) {
  drawIn($(id), () => drawRows($(id), rows));
}

function drawRows(body, rows) {
  body.dataset.empty ??= body.textContent.trim();
  if (rows.length === 0) {
    const columns = body.closest("table").querySelectorAll("thead th").length;
    body.replaceChildren(element("tr", {}, element("td", { colspan: columns, class: "empty" }, body.dataset.empty)));
    return;
  }
  const before = new Map([...body.rows].map((row) => [keyOf(row.cells[0]), row]));
  arrange(body, rows.map((cells) => {
    const name = keyOf(cells[0]);
    const row = before.get(name);
    before.delete(name);
    return row?.cells.length === cells.length ? renew(row, cells) : element("tr", {}, ...cells);
  }));
}

/** A table with a caption for screen readers; a column without a name has buttons. */
export function table(caption, columns, rows) {
  const head = columns.map(([name, kind]) => element("th", { scope: "col", class: kind }, name || element("span", { class: "unseen" }, "Actions")));
  return element("table", {}, element("caption", { class: "unseen" }, caption),
    element("thead", {}, element("tr", {}, ...head)),
    element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells))));
}

/** The rules that a message hit, the largest scores first, or the words that none did. */
export function hitTable(all) {
  const hits = [...(all ?? [])].sort((a, b) => Math.abs(b.score) - Math.abs(a.score));
  if (!hits.length) return element("p", { class: "quiet" }, "No rule matched.");
  return table("Rules that matched", [["Rule"], ["Score", "number"]], hits.map((hit) => [cell(linked("rule", hit.name)), cell(hit.score.toFixed(1), "number")]));
}

/** A button that is disabled until its action has ended; `isOff`, if present, decides whether it stays disabled. */
export function button(words, act, more = {}) {
  const made = element("button", { type: "button", ...more }, words);
  made.addEventListener("click", async () => {
    const held = document.activeElement === made;
    made.disabled = true;
    await act().catch(() => {});
    made.disabled = made.isOff?.() ?? false;
    // A disabled button loses the focus.
    if (held && document.activeElement === document.body) made.focus();
  });
  return made;
}

export const say = (id, words, isWrong = false) => {
  $(id).textContent = words;
  $(id).classList.toggle("wrong", isWrong);
};

/** Leaves for the login page, which leads back to this place. */
export function logIn() {
  const place = location.pathname + location.search + location.hash;
  location.assign("/gatepost/login?next=" + encodeURIComponent(place));
}

/** Like fetch; without a valid login, which a session loses in time, the login page is shown instead. */
export async function request(path, options) {
  const answer = await fetch(path, options);
  if (answer.status === 401) logIn();
  return answer;
}

/**
 * Asks the API; gives the answer, or null and says in `id` what went wrong. `done` makes the words
 * for what went well.
 */
export async function ask(id, method, path, body, done) {
  const options = { method };
  if (body !== undefined) Object.assign(options, { body: JSON.stringify(body), headers: { "content-type": "application/json" } });
  const answer = await request(path, options).catch(() => null);
  if (!answer) {
    say(id, "The server does not answer.", true);
    return null;
  }
  const reply = answer.status === 204 ? {} : await answer.json().catch(() => ({}));
  if (answer.ok || (answer.status === 422 && reply.problems)) {
    if (done) say(id, done(reply));
    return reply;
  }
  say(id, reply.detail ?? reply.reason ?? `The server answered ${answer.status}.`, true);
  return null;
}
