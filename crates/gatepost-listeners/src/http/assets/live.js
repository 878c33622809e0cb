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

  const query = new URLSearchParams({ since });
  for (const topic of places.keys()) query.append("filter", topic);
  const source = new EventSource("/topics?" + query);
  source.onmessage = (event) => {
    const { id, topic, payload } = JSON.parse(event.data);
    for (const place of places.get(topic) ?? []) {
      if (id <= place.dataset.gatepostId) continue;
      place.dataset.gatepostId = id;
      place.textContent = payload ?? "";
      place.dispatchEvent(new CustomEvent("gatepost:value", { bubbles: true, detail: { topic, payload } }));
    }
  };
  addEventListener("pagehide", () => source.close());
})();
