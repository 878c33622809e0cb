// The dashboard: one snapshot of the state to start from, then one event stream of the gateway's
// own topics. Six views, of which the address names the shown one.

import { startAccess, loadUsers } from "./access.js";
import { loadBans, startBans } from "./bans.js";
import { addStats, addressOf, showFigures, startFigures } from "./figures.js";
import { loadHistory, startHistory } from "./history.js";
import { startJournal } from "./journal.js";
import { $, logIn, request } from "./page.js";
import { startPalette } from "./palette.js";
import { placeOf } from "./places.js";
import { loadProcedures, startProcedures } from "./procedures.js";
import { loadScopes, startScopes } from "./scopes.js";
import { loadQuarantine, loadSenders, loadStoppedDigests, quarantineGrew, startQuarantine } from "./quarantine.js";
import { addEarlier, arrived, showArrived, showExample, startRecent } from "./recent.js";
import { loadRules, startRules } from "./rules.js";
import { startScan } from "./scan.js";
import { loadServer, startServer } from "./server.js";
import { loadSessions, startSessions } from "./sessions.js";
import { showTopics, startTopics } from "./topics.js";

const STATS = "$SYS/gatepost/stats";
const JOURNAL = "$SYS/gatepost/journal";
/** The pause before a refused stream is requested again. */
const AGAIN_MS = 2_000;
/** The pause between two readings of bans and clients while they are shown. */
const REFRESH_MS = 5_000;

// --- Views -------------------------------------------------------------------------------------

const VIEWS = { overview: null, history: loadHistory, quarantine: () => Promise.all([loadSenders(), loadStoppedDigests()]), explorer: null, rules: loadRules, procedures: () => Promise.all([loadProcedures(), loadScopes()]), access: () => Promise.all([loadUsers(), loadBans(), loadSessions()]), server: loadServer };

let shown = "overview";

function showView() {
  const name = location.hash.slice(1);
  const item = placeOf(name);
  // Any other address names an element of the present view.
  if (name && !item && !Object.hasOwn(VIEWS, name)) return;
  shown = item?.view ?? (name || "overview");
  for (const view of Object.keys(VIEWS)) {
    $("view-" + view).hidden = view !== shown;
    const link = document.querySelector(`nav a[href="#${view}"]`);
    if (view === shown) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const loaded = VIEWS[shown]?.() ?? Promise.resolve();
  showTopics(shown === "explorer");
  loaded.catch(() => {}).then(() => item?.show()).catch(() => {});
  drawAgain();
}

let refreshed = 0;

/** Reads the lists again that change without an action of this page and are in no event stream. */
function refreshView() {
  if (shown !== "access" || Date.now() - refreshed < REFRESH_MS) return;
  refreshed = Date.now();
  Promise.all([loadBans(), loadSessions()]).catch(() => {});
}

// --- Start -------------------------------------------------------------------------------------

let drawing = false;
let isOutdated = false;
function draw() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    showFigures(isOutdated);
    isOutdated = false;
    showArrived();
  });
}

/** Draws everything, since sizes have changed. */
function drawAgain() {
  isOutdated = true;
  draw();
}

function showLink(words, live) {
  $("link").textContent = words;
  $("link").className = live ? "pill live" : "pill";
}

async function loadState() {
  const state = await (await request("/admin/state")).json();
  startFigures(state);
  showExample(addressOf("smtp"));
  await loadQuarantine();
  addEarlier([...(state.journal ?? [])].reverse());
  draw();
}

async function showUser() {
  const { user, can_log_out } = await (await request("/gatepost/session")).json();
  $("user").textContent = user ?? "";
  $("logout").hidden = !can_log_out;
}

function listen() {
  const query = new URLSearchParams([["filter", STATS], ["filter", JOURNAL]]);
  const source = new EventSource("/topics?" + query);
  let connected = false;
  source.onopen = () => {
    showLink("Live", true);
    // After an interruption the state may contain messages that the stream could not resume.
    if (connected) loadState().catch(() => {});
    connected = true;
  };
  source.onerror = () => {
    showLink("Reconnecting", false);
    // The browser connects again by itself, except after a refusal.
    if (source.readyState !== EventSource.CLOSED) return;
    source.close();
    request("/gatepost/session").then((answer) => answer.json()).then(({ admin }) => (admin ? setTimeout(listen, AGAIN_MS) : logIn())).catch(() => setTimeout(listen, AGAIN_MS));
  };
  source.onmessage = (event) => {
    const { topic, payload } = JSON.parse(event.data);
    if (topic === STATS) {
      addStats(JSON.parse(payload));
      refreshView();
    } else if (topic === JOURNAL) {
      const entry = JSON.parse(payload);
      arrived(entry);
      if (entry.action === "quarantine") quarantineGrew();
    }
    draw();
  };
}

addEventListener("resize", drawAgain);
addEventListener("hashchange", showView);
startRecent();
startHistory();
startJournal();
startQuarantine();
startRules();
startAccess();
startBans();
startSessions();
startScan();
startServer();
startProcedures();
startScopes();
startTopics();
startPalette();
showView();
showUser().catch(() => {});
loadState().catch(() => showLink("No state", false)).finally(listen);
