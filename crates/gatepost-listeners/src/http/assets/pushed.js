// The latest messages of the topics to which this browser is subscribed, with their buttons.
import { $, arrange, drawIn, element, say, when } from "./page.js";

/** What the list begins with, and how long it gets. */
const SINCE = "24h";
const SHOWN_MAX = 50;
/** The pause before a stream that was refused is requested again. */
const AGAIN_MS = 5_000;
/** Schemes of addresses that a publisher may have this page link to. */
const SCHEMES = ["http:", "https:", "mailto:", "tel:", "geo:"];

/** Messages of a sequence have the same tag: the latest counts. The worker has the same function. */
const tagOf = (message) => `${message.topic}\n${message.sequence_id ?? message.id}`;

function isLink(address) {
  try {
    return SCHEMES.includes(new URL(address).protocol);
  } catch {
    return false;
  }
}

const link = (address, words) => element("a", { href: address, target: "_blank", rel: "noopener noreferrer", dir: "auto" }, words);

export class PushedMessages {
  /** Each shown message with its row, by its tag, oldest first. */
  #shown = new Map();
  #source = null;

  constructor(worker) {
    this.worker = worker;
  }

  /** Reads these topics, and no others. */
  read(topics) {
    const query = topics.map((topic) => `filter=${encodeURIComponent(topic)}`).join("&");
    const address = topics.length ? `/topics?${query}&data=ntfy&since=${SINCE}` : null;
    if (address === (this.address ?? null)) return;
    this.address = address;
    this.#source?.close();
    this.#source = null;
    this.#shown.clear();
    $("latest").hidden = !address;
    this.#draw();
    if (!address) return;
    this.#listen(address);
  }

  #listen(address) {
    const source = new EventSource(address);
    this.#source = source;
    source.addEventListener("message", ({ data }) => this.#receive(JSON.parse(data)));
    // The browser connects again by itself, except after a refusal, as by a proxy while the server restarts.
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.#source === source && this.#listen(address), AGAIN_MS);
    });
  }

  #receive(message) {
    const tag = tagOf(message);
    this.#shown.delete(tag);
    // A message that was cleared is read, so the list has no more to say about it either.
    if (message.event === "message") this.#shown.set(tag, this.#row(message, tag));
    if (this.#shown.size > SHOWN_MAX) this.#shown.delete(this.#shown.keys().next().value);
    this.#draw();
  }

  #draw() {
    const place = $("messages");
    drawIn(place, () => arrange(place, [...this.#shown.values()].reverse()));
  }

  #row(message, tag) {
    const title = message.title || message.topic;
    const buttons = (message.actions ?? []).map((action) => this.#button(action, tag)).filter(Boolean);
    return element("li", { "data-id": message.id },
      element("b", { dir: "auto" }, isLink(message.click) ? link(message.click, title) : title),
      element("time", { datetime: new Date(message.time * 1000).toISOString(), class: "quiet" }, " " + when(message.time * 1000)),
      element("p", { dir: "auto" }, message.encoding ? "(not a text)" : message.message),
      buttons.length ? element("p", { class: "actions" }, ...buttons.flatMap((button) => [button, " "])) : null);
  }

  /** A button; none for an intent of Android, or for a link that this page does not open. */
  #button(action, tag) {
    const acts = { view: isLink(action.url), http: true, copy: true };
    if (!acts[action.action]) return null;
    const button = element("button", { type: "button", dir: "auto" }, action.label);
    button.addEventListener("click", () => this.#act(action, tag, button));
    return button;
  }

  async #act(action, tag, button) {
    button.disabled = true;
    const done = await this.#run(action, tag).catch(() => false);
    button.disabled = false;
    say("acted", done ? `${action.label}: done` : `${action.label}: failed`, !done);
    if (!done || !action.clear) return;
    this.#shown.delete(tag);
    this.#draw();
  }

  async #run(action, tag) {
    if (action.action === "http") return this.#ask(action, tag);
    if (action.action === "view") open(action.url, "_blank", "noopener,noreferrer");
    else await navigator.clipboard.writeText(action.value);
    return true;
  }

  /** Has the worker send a request, which this page's content policy would refuse. */
  #ask(action, tag) {
    const { port1, port2 } = new MessageChannel();
    return new Promise((resolve) => {
      port1.onmessage = ({ data }) => resolve(data);
      this.worker.active.postMessage({ action, tag }, [port2]);
    });
  }
}
