// The command palette (Ctrl-K): views, sections and what one can do, found by their words; and for any
// other words, where to look for them.

import { $, element, itemLink } from "./page.js";

/** More are not looked through. */
const SHOWN_MAX = 12;
/** Buttons that stand for a command of their own. */
const BUTTONS = ["pause", "check-reload", "reload", "measure", "choose-all"];
const FIELDS = { search: "Search in messages", "publish-topic": "Publish", "scan-text": "Scan a mail", "new-name": "Add a user", "ban-network": "Ban an address", "log-search": "Search in the log", "settings-search": "Search in the settings" };
const PAGES = { "/docs": "User guide", "/senders": "Your own allowed and blocked senders", "/push": "Notifications in this browser" };

let commands = [];
let chosen = 0;

/** Goes to the view of an element, and to the element. */
function goTo(target) {
  const view = target.closest(".view").id.slice("view-".length);
  const arrive = () => {
    target.scrollIntoView({ block: "center" });
    if (target.matches("button, input, textarea")) target.focus();
    else target.closest("section").querySelector("a, button, input, [tabindex]")?.focus();
  };
  if (!target.closest(".view").hidden) return arrive();
  // The view is shown by an event of its own.
  addEventListener("hashchange", () => setTimeout(arrive), { once: true });
  location.hash = view;
}

/** The commands that do not depend on the words. */
function fixed() {
  const views = [...document.querySelectorAll("nav a")].map((link) => ({ kind: "View", words: link.firstChild.textContent.trim(), act: () => link.click() }));
  const buttons = BUTTONS.map((id) => $(id)).filter((button) => !button.hidden).map((button) => ({
    kind: "Command", words: button.textContent, act: () => goTo(button) }));
  const fields = Object.entries(FIELDS).map(([id, words]) => ({ kind: "Command", words, act: () => goTo($(id)) }));
  const sections = [...document.querySelectorAll(".view section[aria-labelledby]:not([hidden]) h2")].map((title) => ({ kind: "Section", words: title.textContent, act: () => goTo(title) }));
  const pages = Object.entries(PAGES).map(([address, words]) => ({ kind: "Page", words, act: () => (location.href = address) }));
  return [...views, ...buttons, ...fields, ...sections, ...pages];
}

/** The views in which words may be the name of an item. */
function searches(words) {
  const places = [["message", "Message with the id"], ["user", "User"], ["session", "MQTT client"], ["topic", "Topic"], ["rule", "Messages that hit the rule"]];
  const found = places.map(([kind, named]) => ({ kind: "Find", words: `${named} ${words}`, act: () => (location.hash = itemLink(kind, words)) }));
  const search = () => {
    location.hash = "overview";
    $("search").value = words;
    $("filters").requestSubmit();
  };
  return [{ kind: "Find", words: `Search all messages for ${words}`, act: search }, ...found];
}

function matching(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matches = fixed().filter((command) => words.every((word) => command.words.toLowerCase().includes(word)));
  return [...matches, ...(words.length ? searches(text) : [])].slice(0, SHOWN_MAX);
}

function show() {
  commands = matching($("palette-text").value.trim());
  chosen = 0;
  $("palette-list").replaceChildren(...commands.map(({ kind, words }, place) => {
    const option = element("li", { role: "option", id: "palette-" + place }, element("span", { dir: "auto" }, words), element("span", { class: "quiet" }, kind));
    option.addEventListener("click", () => run(place));
    return option;
  }));
  $("palette-none").hidden = commands.length > 0;
  $("palette-list").hidden = commands.length === 0;
  mark(0);
}

function mark(place) {
  const options = [...$("palette-list").children];
  if (!options.length) return $("palette-text").removeAttribute("aria-activedescendant");
  chosen = (place + options.length) % options.length;
  for (const [at, option] of options.entries()) option.setAttribute("aria-selected", at === chosen);
  options[chosen].scrollIntoView({ block: "nearest" });
  $("palette-text").setAttribute("aria-activedescendant", options[chosen].id);
}

function run(place) {
  const command = commands[place];
  $("palette").close();
  command?.act();
}

function open() {
  if ($("palette").open) return;
  $("palette-text").value = "";
  $("palette").showModal();
  show();
}

const KEYS = { ArrowDown: () => mark(chosen + 1), ArrowUp: () => mark(chosen - 1), Enter: () => run(chosen) };

export function startPalette() {
  $("palette-open").addEventListener("click", open);
  $("palette-text").addEventListener("input", show);
  $("palette-text").addEventListener("keydown", (event) => {
    if (!KEYS[event.key]) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  // A click beside the dialog is one on its backdrop, which counts as the dialog.
  $("palette").addEventListener("click", (event) => event.target === $("palette") && $("palette").close());
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
    } else if (event.key === "/" && !event.target.closest("input, textarea, select, dialog")) {
      const field = document.querySelector(".view:not([hidden]) [role=search] input");
      if (!field) return;
      event.preventDefault();
      field.focus();
    }
  });
}
