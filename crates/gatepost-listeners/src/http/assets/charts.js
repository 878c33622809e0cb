// The charts: lines of the last two minutes, and bars of the verdicts.

import { $, VERDICTS, element, number, rate, shape } from "./page.js";

export const SECONDS_SHOWN = 120;

/** Points from the right edge: the newest sample is always at the right. */
function points(values, width, height, top) {
  const step = width / (SECONDS_SHOWN - 1);
  const left = width - step * (values.length - 1);
  return values.map((value, index) => [left + index * step, height - (value / top) * height]);
}

const path = (corners) => corners.map(([x, y], index) => `${index ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

function curve(values, width, height, top, kind) {
  const corners = points(values, width, height, top);
  if (corners.length < 2) return [];
  const line = path(corners);
  const area = `${line}L${width} ${height}L${corners[0][0].toFixed(1)} ${height}Z`;
  return [shape("path", { d: area, class: "area " + kind }), shape("path", { d: line, class: "line " + kind })];
}

export function spark(svg, values) {
  svg.setAttribute("viewBox", "0 0 240 40");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.replaceChildren(...curve(values, 240, 38, Math.max(1, ...values) * 1.15, ""));
}

/** The next of 1, 2, 5, 10, … above the largest value. */
function scaleTop(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, value)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value) ?? 1;
}

export function showTraffic(stats) {
  const svg = $("traffic");
  const { width, height } = svg.getBoundingClientRect();
  if (!width) return;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const incoming = stats.map((sample) => sample.messages_in_per_second);
  const outgoing = stats.map((sample) => sample.deliveries_per_second);
  const top = scaleTop(Math.max(...incoming, ...outgoing, 1));
  const base = height - 16;
  // Room for the uppermost label.
  const reach = base - 14;
  const parts = [0, 0.5, 1].flatMap((share) => {
    const y = base - share * reach;
    const label = shape("text", { x: 0, y: y - 4 });
    label.textContent = share ? rate(top * share) : "";
    return [shape("line", { x1: 0, x2: width, y1: y, y2: y, class: "rule" }), label];
  });
  const edge = (top * base) / reach;
  parts.push(...curve(outgoing, width, base, edge, "out"), ...curve(incoming, width, base, edge, "in"));
  for (const [x, anchor, words] of [[0, "start", "2 minutes ago"], [width, "end", "now"]]) {
    const label = shape("text", { x, y: height - 2, "text-anchor": anchor });
    label.textContent = words;
    parts.push(label);
  }
  svg.replaceChildren(...parts);
}

export function showVerdicts(stats) {
  const totals = stats.at(-1)?.verdicts ?? {};
  $("verdicts").replaceChildren(...VERDICTS.map((verdict) =>
    element("li", { class: verdict }, element("span", {}, verdict), element("b", {}, number(totals[verdict] ?? 0)))));
  // Bars of four seconds each, of what was added to the totals meanwhile.
  const bars = SECONDS_SHOWN / 4;
  const sums = [];
  for (let end = stats.length - 1; end > 0 && sums.length < bars; end -= 4) {
    const from = stats[Math.max(0, end - 4)].verdicts ?? {};
    const to = stats[end].verdicts ?? {};
    sums.unshift(VERDICTS.map((verdict) => Math.max(0, (to[verdict] ?? 0) - (from[verdict] ?? 0))));
  }
  const svg = $("verdict-bars");
  svg.setAttribute("viewBox", `0 0 ${bars * 10} 60`);
  svg.setAttribute("preserveAspectRatio", "none");
  const top = Math.max(1, ...sums.map((sum) => sum.reduce((a, b) => a + b, 0)));
  const parts = [shape("line", { x1: 0, x2: bars * 10, y1: 60, y2: 60, class: "rule" })];
  sums.forEach((sum, index) => {
    let y = 60;
    sum.forEach((count, kind) => {
      const height = (count / top) * 58;
      y -= height;
      if (height) parts.push(shape("rect", { x: (bars - sums.length + index) * 10 + 1.5, y, width: 7, height, class: "bar " + VERDICTS[kind] }));
    });
  });
  svg.replaceChildren(...parts);
}
