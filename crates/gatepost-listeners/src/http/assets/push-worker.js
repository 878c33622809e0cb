// Shows what is pushed to this browser while no page is open, and opens its link.

const API = "/v1/webpush";
const PAGE = "/push";

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("push", (event) => event.waitUntil(receive(read(event.data))));
self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(open(event.notification.data?.click));
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

async function receive(message) {
  if (!["message_delete", "message_clear"].includes(message.event)) return show(message);
  const shown = await self.registration.getNotifications({ tag: tagOf(message) });
  for (const notification of shown) notification.close();
}

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
    data: { click: message.click },
  });
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
