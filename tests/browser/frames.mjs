// Measures how many frames the dashboard shows while messages arrive: `node frames.mjs [MESSAGES_PER_SECOND]`, with
// GATEPOST naming the binary. Frames are counted by requestAnimationFrame, for ten seconds each. The CPU time of the
// page's main thread per message depends less on other programs than the frames do.
import mqtt from "mqtt";
import { launch, openPage } from "./browser.mjs";
import { Server } from "./server.mjs";

const RATE = Number(process.argv[2] ?? 2_000);
const WARM_UP_MS = 3_000;
const MEASURED_MS = 10_000;
const PAUSE_MS = 5;
/** Each view, with a topic that no scope judges or one whose messages are in the journal. */
const CASES = [["overview", "/", "plant"], ["overview, judged", "/", "judged"], ["topics", "/#explorer", "plant"]];

/** Publishes at a fixed rate, whatever happens meanwhile; the returned function ends that and tells the rate. */
function publishing(client, topic) {
  const began = performance.now();
  let sent = 0;
  const send = () => {
    const due = Math.floor(((performance.now() - began) / 1000) * RATE);
    for (; sent < due; sent += 1) client.publish(`${topic}/${sent % 20}/sensor-${sent % 200}`, `{"value": ${sent}}`);
  };
  const timer = setInterval(send, PAUSE_MS);
  return () => {
    clearInterval(timer);
    return (sent * 1000) / (performance.now() - began);
  };
}

const frames = (ms) => new Promise((resolve) => {
  const times = [];
  const end = performance.now() + ms;
  const frame = (now) => {
    times.push(now);
    if (now < end) return requestAnimationFrame(frame);
    const gaps = times.slice(1).map((time, at) => time - times[at]).sort((a, b) => a - b);
    resolve({ fps: (gaps.length * 1000) / (times.at(-1) - times[0]), p99: gaps[Math.floor(gaps.length * 0.99)], worst: gaps.at(-1) });
  };
  requestAnimationFrame(frame);
});

const server = await Server.start({});
await server.configure("[[scope]]", `path = "/judged"`, `topics = ["judged/#"]`, `run = ["/sizecheck"]`);
const reloaded = await fetch(server.origin + "/admin/reload", { method: "POST" });
if (!reloaded.ok) throw new Error(await reloaded.text());
const browser = await launch();
for (const [name, path, topic] of CASES) {
  const { page, close } = await openPage(browser, server.origin + path, { viewport: { width: 1280, height: 900 } });
  const client = await mqtt.connectAsync(`mqtt://${server.binds.mqtt}`, { reconnectPeriod: 0 });
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Performance.enable", { timeDomain: "threadTicks" });
  const cpuSeconds = async () => {
    const { metrics } = await devtools.send("Performance.getMetrics");
    return metrics.find((metric) => metric.name === "TaskDuration").value;
  };
  const end = publishing(client, topic);
  await page.waitForTimeout(WARM_UP_MS);
  const [before, began] = [await cpuSeconds(), performance.now()];
  const { fps, p99, worst } = await page.evaluate(frames, MEASURED_MS);
  const [cpu, seconds, rate] = [(await cpuSeconds()) - before, (performance.now() - began) / 1000, end()];
  console.log(`${name}: ${fps.toFixed(1)} frames/s at ${rate.toFixed(0)} messages/s; 99 % within ${p99.toFixed(1)} ms, the longest ${worst.toFixed(1)} ms; `
    + `main thread ${((100 * cpu) / seconds).toFixed(1)} % of a processor, ${((1e6 * cpu) / (rate * seconds)).toFixed(1)} us for each message`);
  await client.endAsync(true);
  await close();
}
await browser.close();
await server.remove();
