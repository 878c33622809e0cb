// Keeps the values of a page's live() insertion points moving: one event stream for the whole
// page, resumed by the browser after a break, from where the page was rendered.
"use strict";
(() => {
  const places = new Map();
  let since = "";
  for (const place of document.querySelectorAll("[data-gatepost-live]")) {
    const { gatepostLive: topic, gatepostId: id } = place.dataset;
    if (!places.has(topic)) places.set(topic, []);
    places.get(topic).push(place);
    // Ids sort by time, so the smallest one misses nothing; the others only see a value twice.
    if (!since || id < since) since = id;
  }
  if (!places.size || !window.EventSource) return;

  /** A value within a JSON payload; empty where there is none. */
  const valueAt = (payload, path) => {
    let value;
    try {
      value = JSON.parse(payload);
    } catch {
      return "";
    }
    for (const name of path.split(".")) value = value !== null && typeof value === "object" && Object.hasOwn(value, name) ? value[name] : undefined;
    if (value == null) return "";
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  };

  const query = new URLSearchParams({ since });
  for (const topic of places.keys()) query.append("filter", topic);
  const source = new EventSource("/topics?" + query);
  source.onmessage = (event) => {
    const { id, topic, payload } = JSON.parse(event.data);
    for (const place of places.get(topic) ?? []) {
      if (id <= place.dataset.gatepostId) continue;
      place.dataset.gatepostId = id;
      const { gatepostPath: path } = place.dataset;
      const value = path === undefined ? payload ?? "" : valueAt(payload, path);
      place.textContent = value;
      place.dispatchEvent(new CustomEvent("gatepost:value", { bubbles: true, detail: { topic, payload, value } }));
    }
  };
  addEventListener("pagehide", () => source.close());
})();
