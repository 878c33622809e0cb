// Shows what is pushed to this browser while no page is open, opens its link, and carries out its buttons.

const API = "/v1/webpush";
const PAGE = "/push";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil(receive(read(event.data))));
self.addEventListener("notificationclick", (event) => event.waitUntil(clicked(event)));
// The page's list has the same buttons: its content policy permits requests to this server only.
self.addEventListener("message", (event) => {
  const { action, tag } = event.data ?? {};
  if (action) event.waitUntil(run(action, tag).then((done) => event.ports[0]?.postMessage(done)));
});
self.addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew(event)));

function read(data) {
  try {
    return data?.json() ?? {};
  } catch {
    return {};
  }
}

/** Messages of a sequence have the same tag, so the latest replaces the earlier ones. */
const tagOf = (message) => `${message.topic}\n${message.sequence_id ?? message.id}`;

/** The browser does not wait for the end of one push event before it reports the next. */
let earlier = Promise.resolve();

function receive(message) {
  const received = earlier.then(() => apply(message));
  earlier = received.catch(() => {});
  return received;
}

async function apply(message) {
  if (!["message_delete", "message_clear"].includes(message.event)) return show(message);
  await close(tagOf(message));
}

async function close(tag) {
  const shown = await self.registration.getNotifications({ tag });
  for (const notification of shown) notification.close();
}

/** The buttons that a notification can have: it has no clipboard, and sends no intents of Android. */
const buttonsOf = (message) => (message.actions ?? []).filter(({ action }) => ["view", "http"].includes(action));

function show(message) {
  const tags = (message.tags ?? []).join(", ");
  return self.registration.showNotification(message.title || message.topic || "Gatepost", {
    body: [message.message, tags && `(${tags})`].filter(Boolean).join("\n"),
    tag: tagOf(message),
    icon: "/gatepost/icon.svg",
    image: message.image,
    timestamp: message.time ? message.time * 1000 : undefined,
    requireInteraction: message.priority === 5,
    silent: message.priority <= 2,
    actions: buttonsOf(message).map(({ id, label }) => ({ action: id, title: label })),
    data: { click: message.click, actions: buttonsOf(message) },
  });
}

function clicked({ action: id, notification }) {
  const action = id && notification.data?.actions?.find((one) => one.id === id);
  if (action) return run(action, notification.tag);
  notification.close();
  return open(notification.data?.click);
}

/** Carries out a button of the message with this tag; returns whether that worked. */
async function run(action, tag) {
  try {
    if (action.action === "view") await open(action.url);
    else await send(action);
  } catch (error) {
    await self.registration.showNotification(`${action.label}: failed`, { body: error.message, icon: "/gatepost/icon.svg" });
    return false;
  }
  if (action.clear) await close(tag);
  return true;
}

/** Parts of this server that a publisher must not reach through the browser of a reader. */
const PROTECTED = /^\/(admin|call|gatepost|v1)(\/|$)/;

/** Whether the server, or a proxy before it, may take a path for a protected one: they decode escapes. */
function isProtected({ pathname }) {
  let decoded;
  try {
    decoded = decodeURIComponent(pathname);
  } catch {
    return true;
  }
  // The browser resolved `..` only where neither it nor a slash beside it was written with an escape.
  const resolved = new URL(decoded.replace(/[\\/]+/g, "/"), self.location.origin);
  return PROTECTED.test(resolved.pathname);
}

/**
 * Sends a request that a publisher wrote. It has none of the user's cookies and logins, so that it
 * can do no more than the publisher itself could.
 */
async function send({ url, method, headers, body }) {
  const target = new URL(url);
  if (target.origin === self.location.origin && isProtected(target)) throw new Error("this address is not permitted");
  const options = { method: method || "POST", headers: headers ?? {}, body: body || undefined };
  const answer = await fetch(target, { ...options, credentials: "omit", referrerPolicy: "no-referrer", redirect: "error", cache: "no-store" });
  if (!answer.ok) throw new Error(`the answer was ${answer.status}`);
}

/** Opens an HTTP or HTTPS address, and no other address of a publisher. */
function open(click) {
  let address = PAGE;
  try {
    if (["http:", "https:", "mailto:", "tel:"].includes(new URL(click).protocol)) address = click;
  } catch {
    // There is no message, or it is incomplete.
  }
  return self.clients.openWindow(address);
}

/** The push service gave the browser another endpoint: the topics are moved to it. */
async function renew({ oldSubscription, newSubscription }) {
  const { public_key, subscriptions } = await (await fetch(API)).json();
  const made = newSubscription ?? (await self.registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: public_key }));
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(oldSubscription?.endpoint));
  const text = btoa(String.fromCharCode(...new Uint8Array(digest).slice(0, 16)));
  const id = text.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
  const known = subscriptions.find((one) => one.id === id);
  if (!known) return;
  const send = (method, body) => fetch(API, { method, body: JSON.stringify(body), headers: { "content-type": "application/json" } });
  await send("POST", { ...made.toJSON(), topics: known.topics });
  await send("DELETE", { endpoint: oldSubscription.endpoint });
}
