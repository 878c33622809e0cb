// MQTT.js: over WebSocket, as a page in a browser uses it, and over TCP.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import mqtt from "mqtt";
import { Server } from "./server.mjs";

let server;
before(async () => (server = await Server.start({})));
after(() => server.remove());

// In a page there is WebSocket only; the same library in a program speaks plain TCP too.
const ways = {
  WebSocket: () => `ws://${server.binds.http}/mqtt`,
  TCP: () => `mqtt://${server.binds.mqtt}`,
};
for (const [way, url] of Object.entries(ways)) for (const protocolVersion of [4, 5]) {
  test(`MQTT.js by ${way}, version ${protocolVersion}: subscribe, publish, receive`, async () => {
    const options = { protocolVersion, reconnectPeriod: 0, connectTimeout: 60_000 };
    const client = await mqtt.connectAsync(url(), options);
    const arrived = new Promise((resolve) => client.on("message", (...message) => resolve(message)));
    const [granted] = await client.subscribeAsync("alarms/#", { qos: 1 });
    assert.equal(granted.qos, 1);
    const payload = "x".repeat(100_000);
    const properties = protocolVersion === 5 ? { userProperties: { room: "hall 3" } } : undefined;
    await client.publishAsync("alarms/fire", payload, { qos: 1, properties });
    const [topic, received, packet] = await arrived;
    assert.equal(topic, "alarms/fire");
    assert.equal(received.toString(), payload);
    if (protocolVersion === 5) assert.equal(packet.properties.userProperties.room, "hall 3");
    await client.endAsync();
  });
}

test("a mail reaches a subscriber over WebSocket with its verdict", async () => {
  const client = await mqtt.connectAsync(`ws://${server.binds.http}/mqtt`, { protocolVersion: 5, reconnectPeriod: 0 });
  const arrived = new Promise((resolve) => client.on("message", (...message) => resolve(message)));
  await client.subscribeAsync("alarms/fire", { qos: 1 });
  const { status, transcript } = await server.mail("Smoke in hall 3", "Please look.");
  assert.equal(status, 0, transcript);
  const [, payload, packet] = await arrived;
  assert.match(payload.toString(), /^Smoke in hall 3\n/);
  assert.equal(packet.properties.userProperties.subject, "Smoke in hall 3");
  assert.equal(packet.properties.userProperties.verdict, "accept");
  await client.endAsync();
});
