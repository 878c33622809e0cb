// Notifications of this browser: their state and their topics.
import { $, ask, dayAndTime, plural, say } from "./page.js";
import { PushedMessages } from "./pushed.js";

const API = "/v1/webpush";
const WORKER = "/gatepost/push-worker.js";

/** The server's id of a subscription: its endpoint's SHA-256, shortened, in base64 for URLs. */
async function idOf(endpoint) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(endpoint));
  const text = btoa(String.fromCharCode(...new Uint8Array(digest).slice(0, 16)));
  return text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const keyOf = (subscription) => {
  const bytes = new Uint8Array(subscription.options.applicationServerKey ?? []);
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
};

function whyNot() {
  if (!isSecureContext) return "Browsers permit notifications only for pages loaded by https, or from the same machine.";
  if (!("serviceWorker" in navigator) || !("PushManager" in window)) return "This browser does not support notifications of web pages. On an iPhone, add this page to the home screen first.";
  return null;
}

class Page {
  async start() {
    const reason = whyNot();
    if (reason) return say("state", reason, true);
    const answer = await fetch(API).catch(() => null);
    if (answer?.status === 404) return say("state", "This server does not notify browsers: web_push.contact is not set.", true);
    if (!answer?.ok) return say("state", "The server does not answer.", true);
    const { public_key, subscriptions } = await answer.json();
    this.key = public_key;
    this.worker = await navigator.serviceWorker.register(WORKER, { scope: "/push" });
    this.subscription = await this.worker.pushManager.getSubscription();
    const id = this.subscription && (await idOf(this.subscription.endpoint));
    const known = subscriptions.find((one) => one.id === id);
    if (known) {
      $("topics").value = known.topics.join("\n");
      // Renewed, so that it does not expire while it is in use.
      await this.send(known.topics);
    }
    this.show(known);
    $("subscription").hidden = false;
    $("subscription").addEventListener("submit", (event) => {
      event.preventDefault();
      this.subscribe();
    });
    $("unsubscribe").addEventListener("click", () => this.unsubscribe());
  }

  show(known) {
    $("unsubscribe").hidden = !known;
    this.messages ??= new PushedMessages(this.worker);
    this.messages.read(known?.topics ?? []);
    $("subscribe").textContent = known ? "Save" : "Notify me";
    if (!known) return say("state", Notification.permission === "denied" ? "The browser's settings forbid notifications of this page." : "This browser is not subscribed.");
    const waits = known.queued ? `, ${plural(known.queued, "message")} wait` : "";
    const error = known.state === "retrying" && known.last_error ? `: ${known.last_error.text}` : "";
    say("state", `Subscribed at ${known.push_service} until ${dayAndTime(known.expires * 1000)}, renewed at each visit${waits}${error}.`);
  }

  send(topics) {
    return ask("done", "POST", API, { ...this.subscription.toJSON(), topics });
  }

  async subscribe() {
    const topics = $("topics").value.split("\n").map((line) => line.trim()).filter(Boolean);
    if ((await Notification.requestPermission()) !== "granted") return say("done", "The browser does not permit notifications.", true);
    // A subscription made with another server's key would not be served.
    if (this.subscription && keyOf(this.subscription) !== this.key) {
      await this.subscription.unsubscribe();
      this.subscription = null;
    }
    try {
      this.subscription ??= await this.worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: this.key });
    } catch (error) {
      return say("done", `The browser's push service refused: ${error.message}`, true);
    }
    if (await this.send(topics)) await this.refresh("Saved.");
  }

  async unsubscribe() {
    const endpoint = this.subscription.endpoint;
    await this.subscription.unsubscribe();
    this.subscription = null;
    if (await ask("done", "DELETE", API, { endpoint })) await this.refresh("Stopped.");
  }

  async refresh(words) {
    const { subscriptions } = await (await fetch(API)).json();
    const id = this.subscription && (await idOf(this.subscription.endpoint));
    this.show(subscriptions.find((one) => one.id === id));
    say("done", words);
  }
}

new Page().start().catch((error) => say("state", error.message, true));
