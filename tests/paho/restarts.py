"""Clients of a cluster whose nodes are restarted: a publisher and a subscriber with persistent
sessions, at QoS 1. (At QoS 2, paho 2.1 begins a publication again whose PUBREL it has sent, if two
attempts to connect follow each other, so it would arrive twice.)

    restarts.py publish|subscribe FOLDER

Each connects to the nodes in FOLDER/addresses in turn, a line with host and port for each, which is
read again before each attempt. The publisher numbers its messages. When FOLDER/finish exists, it
completes those under way, prints `acknowledged COUNT`, and ends. The subscriber prints `complete
COUNT` when it has as many as FOLDER/finish says, and `wrong: ...` if a message was left out.
"""

import sys
import time
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

TOPIC = "restarts/numbers"
KEEP_ALIVE_SECONDS = 5
EXPIRY_SECONDS = 3600
IN_FLIGHT_MAX = 20
PUBLISH_EVERY_SECONDS = 0.002


def say(*words):
    print(*words, flush=True)


class ClusterClient:
    """A client that goes from node to node."""

    def __init__(self, folder, name):
        self.folder = Path(folder)
        self.is_connected = False
        self.connections = 0
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, name, protocol=mqtt.MQTTv5)
        self.client.max_inflight_messages_set(IN_FLIGHT_MAX)
        self.client.on_connect = self.on_connect
        self.session = Properties(PacketTypes.CONNECT)
        self.session.SessionExpiryInterval = EXPIRY_SECONDS

    def on_connect(self, _client, _userdata, flags, reason, _properties):
        self.is_connected = not reason.is_failure
        if self.is_connected:
            self.connections += 1
            # After the first connection, a new session would have lost what was in the old one.
            if self.connections > 1 and not flags.session_present:
                say("wrong: the session is gone")

    def finish(self):
        """What the file says, once it is there."""
        file = self.folder / "finish"
        return file.read_text() if file.exists() else None

    def run(self, is_done):
        attempt = 0
        while not is_done():
            addresses = (self.folder / "addresses").read_text().splitlines()
            host, port = addresses[attempt % len(addresses)].split()
            attempt += 1
            self.is_connected = False
            try:
                self.client.connect(host, int(port), KEEP_ALIVE_SECONDS, clean_start=False,
                                    properties=self.session)
                while not is_done() and self.client.loop(PUBLISH_EVERY_SECONDS) == mqtt.MQTT_ERR_SUCCESS:
                    if self.is_connected:
                        self.act()
            except OSError:
                pass
            time.sleep(0.02)
        say("connections", self.connections)

    def act(self):
        """What it does after each turn of its loop."""


class Publisher(ClusterClient):
    def __init__(self, folder):
        super().__init__(folder, "restarted-publisher")
        self.count = 0
        self.acknowledged = 0
        self.client.on_publish = self.on_publish

    def on_publish(self, _client, _userdata, _mid, reason, _properties):
        if reason.is_failure:
            say("wrong:", reason)
        self.acknowledged += 1
        if self.acknowledged % 100 == 0:
            say("published", self.acknowledged)

    def act(self):
        if self.finish() is None and self.count - self.acknowledged < IN_FLIGHT_MAX:
            self.client.publish(TOPIC, str(self.count), qos=1)
            self.count += 1

    def work(self):
        self.run(lambda: self.finish() is not None and self.acknowledged == self.count)
        say("acknowledged", self.acknowledged)


class Subscriber(ClusterClient):
    def __init__(self, folder):
        super().__init__(folder, "restarted-subscriber")
        self.next = 0
        self.client.on_message = self.on_message
        self.client.on_subscribe = lambda *_: say("subscribed")

    def on_connect(self, *arguments):
        super().on_connect(*arguments)
        if self.connections == 1:
            self.client.subscribe(TOPIC, qos=1)

    def on_message(self, _client, _userdata, message):
        number = int(message.payload)
        if number > self.next:
            say("wrong:", number, "instead of", self.next)
        self.next = max(self.next, number + 1)

    def work(self):
        self.run(lambda: self.finish() == str(self.next))
        say("complete", self.next)


if __name__ == "__main__":
    {"publish": Publisher, "subscribe": Subscriber}[sys.argv[1]](sys.argv[2]).work()
