#!/usr/bin/env python3
"""The how-to guide for Home Assistant, with a library that devices announce themselves with
(ha-mqtt-discoverable), and the rest of an installation played by aiomqtt and Jinja2: Home Assistant
reads discovery messages, renders templates and sends commands in the same way.

Each step waits for a message, for at most PATIENCE seconds.
"""

import argparse
import asyncio
import json
import queue
import smtplib
import sys

import aiomqtt
import jinja2
from ha_mqtt_discoverable import DeviceInfo, Settings
from ha_mqtt_discoverable.sensors import Switch, SwitchInfo

PATIENCE = 60


class HomeAssistant:
    """The entities that were discovered, and their states as Home Assistant shows them."""

    def __init__(self, client):
        self.client = client
        self.entities = {}
        self.payloads = {}

    async def start(self):
        await self.client.subscribe("homeassistant/+/+/config", qos=0)
        await self.client.subscribe("homeassistant/+/+/+/config", qos=0)
        await self.client.publish("homeassistant/status", "online", qos=0, retain=False)

    async def take(self, message):
        topic, payload = message.topic.value, message.payload.decode()
        if not topic.endswith("/config"):
            self.payloads[topic] = payload
        else:
            entity = json.loads(payload)
            self.entities[entity["unique_id"]] = entity
            await self.client.subscribe(entity["state_topic"])

    def state(self, name):
        entity = self.entities.get(name, {})
        payload = self.payloads.get(entity.get("state_topic"))
        if payload is None:
            return None
        template = jinja2.Template(entity.get("value_template", "{{ value }}"))
        try:
            value_json = json.loads(payload)
        except ValueError:
            value_json = None
        return template.render(value=payload, value_json=value_json)

    async def until(self, name, expected):
        """Takes messages until the state of this entity is the expected one."""
        async with asyncio.timeout(PATIENCE):
            while self.state(name) != expected:
                await self.take(await anext(self.client.messages))


def boiler(options, commands):
    """A device: a switch that obeys its commands."""
    mqtt = Settings.MQTT(
        host="127.0.0.1",
        port=options.port,
        username="boiler",
        password="secret",
        state_prefix="home/boiler",
    )
    device = DeviceInfo(name="boiler", identifiers="boiler")
    entity = SwitchInfo(name="heating", unique_id="boiler_heating", device=device)

    def obey(_client, _data, message):
        command = message.payload.decode()
        switch.on() if command == "ON" else switch.off()
        commands.put(command)

    switch = Switch(Settings(mqtt=mqtt, entity=entity), obey)
    switch.retain = True
    return switch


async def run(options):
    commands = queue.Queue()
    switch = boiler(options, commands)
    switch.off()

    def client(user, name):
        return aiomqtt.Client(
            "127.0.0.1",
            options.port,
            username=user,
            password="secret",
            identifier=name,
            protocol=aiomqtt.ProtocolVersion.V311,
        )

    async with client("homeassistant", "ha") as connection, client("root", "freezer") as freezer:
        home = HomeAssistant(connection)
        await home.start()
        # The device announced itself before Home Assistant was there: its messages are retained.
        await home.until("boiler_heating", "OFF")
        topic = home.entities["boiler_heating"]["command_topic"]
        await connection.publish(topic, "ON", qos=1)
        await home.until("boiler_heating", "ON")
        assert commands.get(timeout=PATIENCE) == "ON"

        # An alarm, as the page says.
        await freezer.publish("home/freezer/state", '{"temperature": -10}', qos=1)
        await home.until("gatepost_alarm_freezer", "ON")
        await freezer.publish("home/freezer/state", '{"temperature": -18}', qos=1)
        await home.until("gatepost_alarm_freezer", "OFF")

        # The latest mail, as the page says.
        mail = "From: anna@example.org\nTo: alarms@localhost\nSubject: The boiler is cold\n\nHello\n"
        with smtplib.SMTP("127.0.0.1", options.smtp) as smtp:
            smtp.sendmail("anna@example.org", ["alarms@localhost"], mail)
        await home.until("gatepost_mail", "The boiler is cold")
        attributes = json.loads(home.payloads["home/mail"])
        assert attributes["from"] == "anna@example.org", attributes

    # A device may not announce itself as another one.
    async with client("boiler", "intruder") as intruder:
        watch = "homeassistant/switch/other/config"
        await intruder.publish(watch, "{}", qos=1, retain=True)
    async with client("homeassistant", "ha") as connection:
        await connection.subscribe("homeassistant/switch/#")
        async with asyncio.timeout(PATIENCE):
            first = await anext(connection.messages)
        assert first.topic.value == switch.config_topic, first.topic
        # The answer to the second subscription follows everything that is retained under the first.
        await connection.subscribe("home/boiler/#")
        async with asyncio.timeout(PATIENCE):
            second = await anext(connection.messages)
        assert second.topic.value == switch.state_topic, second.topic


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--smtp", type=int, required=True)
    asyncio.run(run(parser.parse_args()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
