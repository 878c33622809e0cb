// Updates the values, lists and charts of live(), live_list() and live_chart(): one event stream for the whole
// page, which begins at the time of rendering and is resumed after an interruption. Writes numbers and times in the
// visitor's language and zone. Everything that a message holds is put in as text, never as markup.
"use strict";
(() => {
  /** A number of seconds since 1970 that is not reached soon; larger ones are milliseconds. */
  const SECONDS_MAX = 1e11;
  /** Digits after the point of a chart's labels. */
  const LABEL_DECIMALS = 2;
  // Within the server's limits of an address; a page with more live topics has several streams.
  const [FILTERS_MAX, FILTER_CHARACTERS_MAX] = [100, 6_000];
  /** The first pause before a refused stream is requested again; it doubles up to the second. */
  const [AGAIN_MS, AGAIN_MS_MAX] = [1_000, 60_000];
  // A chart's own units, as the server draws it.
  const [WIDTH, LEFT, TOP, BOTTOM] = [600, 6, 30, 140];

  // --- Values and filters ------------------------------------------------------------------------

  /** A value within a JSON payload; empty if there is none. */
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

  const numberOf = (text) => {
    const value = /^\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*$/i.test(text) ? Number(text) : NaN;
    return Number.isFinite(value) ? value : null;
  };

  const timeOf = (text) => {
    const number = numberOf(text);
    if (number !== null) return number < 0 ? NaN : number < SECONDS_MAX ? number * 1000 : number;
    if (!/^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/.test(text)) return NaN;
    return Date.parse(text.replace(" UTC", "Z").replace(" ", "T"));
  };

  const rounded = (value, decimals) => {
    const factor = 10 ** decimals;
    const result = (Math.sign(value) * Math.round(Math.abs(value) * factor)) / factor;
    return Number.isFinite(result) ? result : value;
  };

  const decimalsOf = (count) => (count === null ? { maximumFractionDigits: 20 } : { minimumFractionDigits: count, maximumFractionDigits: count });
  const PARTS = { datetime: { dateStyle: "medium", timeStyle: "medium" }, date: { dateStyle: "medium" }, time: { timeStyle: "medium" } };
  const localTime = (unixMs, part) => new Intl.DateTimeFormat(undefined, PARTS[part]).format(unixMs);

  /** A filter passes what it does not apply to. */
  const FILTERS = {
    upper: (text) => text.toUpperCase(),
    lower: (text) => text.toLowerCase(),
    trim: (text) => text.trim(),
    default: (text, other) => text || other,
    round: (text, decimals) => (numberOf(text) === null ? text : String(rounded(numberOf(text), decimals))),
    number: (text, decimals) => (numberOf(text) === null ? text : new Intl.NumberFormat(undefined, decimalsOf(decimals)).format(numberOf(text))),
    local_time: (text, part) => {
      const date = new Date(timeOf(text));
      return Number.isNaN(date.getTime()) ? text : localTime(date, part);
    },
  };

  const filtersOf = (place) => JSON.parse(place.dataset.gatepostFilters ?? "[]");
  const filtered = (filters, text) => filters.reduce((changed, [name, argument]) => FILTERS[name](changed, argument), text);
  const valueOf = (place, payload) => (place.dataset.gatepostPath === undefined ? payload ?? "" : valueAt(payload, place.dataset.gatepostPath));

  // --- Topics ------------------------------------------------------------------------------------

  /** Whether a filter takes a topic (MQTT 5 section 4.7). */
  const takes = (filter, topic) => {
    if (filter === topic) return true;
    const [levels, names] = [filter.split("/"), topic.split("/")];
    if (topic.startsWith("$") && (levels[0] === "+" || levels[0] === "#")) return false;
    for (const [place, level] of levels.entries()) {
      if (level === "#") return true;
      if (place >= names.length || (level !== "+" && level !== names[place])) return false;
    }
    return levels.length === names.length;
  };

  // --- Elements ----------------------------------------------------------------------------------

  /** Whether a message is later than all before. Where one overtook another, their positions show the order and their ids do not. */
  const order = (place) => {
    let last = place.dataset.gatepostId;
    return (id, position) => {
      if (position <= last) return false;
      last = position;
      const isOther = id !== place.dataset.gatepostId;
      place.dataset.gatepostId = id;
      return isOther;
    };
  };

  /** One value: a function that takes a message and its position, and gives what it shows. */
  const single = (place) => {
    const filters = filtersOf(place);
    const isLater = order(place);
    return ({ id, payload }, position) => {
      if (!isLater(id, position)) return undefined;
      const value = filtered(filters, valueOf(place, payload));
      place.textContent = value;
      return value;
    };
  };

  const made = (name, className, text) => {
    const element = document.createElement(name);
    element.className = className;
    element.textContent = text;
    return element;
  };

  const list = (place) => {
    const filters = filtersOf(place);
    const count = Number(place.dataset.gatepostCount);
    for (const time of place.querySelectorAll("time")) time.textContent = localTime(new Date(time.dateTime), "datetime");
    return ({ id, topic, payload, unix_ms: unixMs }) => {
      const entries = [...place.children];
      if (entries.some((entry) => entry.dataset.gatepostId === id)) return undefined;
      // Two publications may come in another order than that of their ids.
      const after = entries.find((entry) => entry.dataset.gatepostId < id);
      if (!after && entries.length >= count) return undefined;
      const value = filtered(filters, valueOf(place, payload));
      const time = made("time", "", localTime(unixMs, "datetime"));
      time.dateTime = new Date(unixMs).toISOString();
      const entry = made("li", "", "");
      entry.dataset.gatepostId = id;
      entry.append(time, " ", made("span", "topic", topic), " ", made("span", "value", value));
      place.insertBefore(entry, after ?? null);
      if (entries.length >= count) place.lastElementChild.remove();
      return value;
    };
  };

  const chart = (place) => {
    const points = JSON.parse(place.dataset.gatepostPoints);
    const isLater = order(place);
    const [line, dot] = [place.querySelector("polyline"), place.querySelector("circle")];
    const [highest, latest, lowest, from, to] = place.querySelectorAll("text");
    const name = [place.dataset.gatepostChart, place.dataset.gatepostPath].filter(Boolean).join(", ");
    const label = (value) => new Intl.NumberFormat(undefined, { maximumFractionDigits: LABEL_DECIMALS }).format(value);
    const share = (part, whole, otherwise) => (Number.isFinite(part / whole) ? part / whole : otherwise);
    let places = [];
    /** The frame that draws: one for all messages that come before it. */
    let drawing = 0;

    const draw = () => {
      drawing = 0;
      if (!points.length) return;
      const values = points.map(([, value]) => value);
      const [least, most] = [Math.min(...values), Math.max(...values)];
      const [first, last] = [points[0], points.at(-1)];
      places = points.map(([at, value]) => [
        LEFT + (WIDTH - 2 * LEFT) * share(at - first[0], last[0] - first[0], 1),
        BOTTOM - (BOTTOM - TOP) * share(value - least, most - least, 0.5)]);
      line.setAttribute("points", places.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" "));
      [highest.textContent, lowest.textContent] = [label(most), label(least)];
      const isOneDay = new Date(first[0]).toDateString() === new Date(last[0]).toDateString();
      [from.textContent, to.textContent] = [first, last].map(([at]) => localTime(at, isOneDay ? "time" : "datetime"));
      place.setAttribute("aria-label", `${name}: ${label(last[1])}, ${label(least)} – ${label(most)}`);
      point(points.length - 1);
    };
    /** Marks a point and writes its value, and its time where that is not the latest. */
    const point = (index) => {
      dot.setAttribute("cx", places[index][0].toFixed(1));
      dot.setAttribute("cy", places[index][1].toFixed(1));
      const [at, value] = points[index];
      latest.textContent = index === points.length - 1 ? label(value) : `${localTime(at, "datetime")}: ${label(value)}`;
    };
    place.addEventListener("pointermove", (event) => {
      const box = place.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * WIDTH;
      const distances = places.map(([at]) => Math.abs(at - x));
      if (distances.length) point(distances.indexOf(Math.min(...distances)));
    });
    place.addEventListener("pointerleave", draw);
    draw();

    return ({ id, payload, unix_ms: unixMs }, position) => {
      const value = numberOf(valueOf(place, payload));
      if (!isLater(id, position) || value === null) return undefined;
      points.push([unixMs, value]);
      if (points.length > Number(place.dataset.gatepostCount)) points.shift();
      drawing ||= requestAnimationFrame(draw);
      return String(value);
    };
  };

  // --- The stream --------------------------------------------------------------------------------

  for (const place of document.querySelectorAll("[data-gatepost-value]")) place.textContent = filtered(filtersOf(place), place.dataset.gatepostValue);

  const readers = [];
  for (const [name, kind] of [["gatepostLive", single], ["gatepostList", list], ["gatepostChart", chart]]) {
    const attribute = "data-" + name.replace(/[A-Z]/g, (letter) => "-" + letter.toLowerCase());
    for (const place of document.querySelectorAll(`[${attribute}]`)) readers.push({ place, filter: place.dataset[name], take: kind(place) });
  }
  if (!readers.length || !window.EventSource) return;

  const filters = new Map();
  for (const reader of readers) filters.set(reader.filter, [...(filters.get(reader.filter) ?? []), reader]);

  /** Gives a message to the elements of these filters. */
  const give = (filters, message, position) => {
    for (const [filter, readers] of filters) {
      if (!takes(filter, message.topic)) continue;
      for (const { place, take } of readers) {
        const value = take(message, position);
        if (value !== undefined) place.dispatchEvent(new CustomEvent("gatepost:value", { bubbles: true, detail: { topic: message.topic, payload: message.payload, value } }));
      }
    }
  };

  // A page names whole topics, also for a user whose own topics have a prefix.
  const queryOf = (filters, more) => {
    const query = new URLSearchParams({ page: 1, ...more });
    for (const filter of filters) query.append("filter", filter);
    return query;
  };

  /** The messages between were missed, and the last one of a topic may be among them: the latest of each single topic is read. */
  const latestReader = (filters) => {
    const topics = [...filters.keys()].filter((filter) => !/[+#]/.test(filter));
    const read = async () => {
      const query = queryOf(topics, { since: "latest", poll: 1 });
      const answer = await fetch("/topics?" + query, { headers: { accept: "application/x-ndjson" } });
      if (!answer.ok) return;
      for (const line of (await answer.text()).split("\n").filter(Boolean)) {
        const message = JSON.parse(line);
        if (message.topic) give(filters, message, message.position ?? message.id);
      }
    };
    let [isReading, isDue] = [false, false];
    return async () => {
      isDue = topics.length > 0;
      if (isReading) return;
      isReading = true;
      while (isDue) {
        isDue = false;
        await read().catch(() => {});
      }
      isReading = false;
    };
  };

  /** Reads these filters as long as the page is shown. */
  const stream = (filters) => {
    // Ids sort by time, so the smallest one misses nothing; the others only see a value twice.
    const ids = [...filters.values()].flat().map(({ place }) => place.dataset.gatepostId);
    let since = ids.reduce((one, other) => (other < one ? other : one));
    const readLatest = latestReader(filters);
    let source;
    let timer = 0;
    let pause = AGAIN_MS;
    const connect = () => {
      source = new EventSource("/topics?" + queryOf(filters.keys(), { since }));
      source.onopen = () => (pause = AGAIN_MS);
      source.onmessage = (event) => {
        since = event.lastEventId || since;
        give(filters, JSON.parse(event.data), since);
      };
      source.addEventListener("gap", readLatest);
      source.onerror = () => {
        // The browser connects again by itself, except after a refusal, as by a proxy while the server restarts.
        if (source.readyState !== EventSource.CLOSED) return;
        timer = setTimeout(connect, pause);
        pause = Math.min(2 * pause, AGAIN_MS_MAX);
      };
    };
    connect();
    addEventListener("pagehide", () => {
      clearTimeout(timer);
      source.close();
    });
    // A page that the browser kept, and shows again.
    addEventListener("pageshow", (event) => event.persisted && connect());
  };

  let [part, characters] = [new Map(), 0];
  const parts = [part];
  for (const [filter, readers] of filters) {
    const length = queryOf([filter]).toString().length + 1;
    if (part.size === FILTERS_MAX || (part.size && characters + length > FILTER_CHARACTERS_MAX)) {
      [part, characters] = [new Map(), 0];
      parts.push(part);
    }
    part.set(filter, readers);
    characters += length;
  }
  parts.forEach(stream);
})();
