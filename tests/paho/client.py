#!/usr/bin/env python3
"""Eclipse paho against a broker, in the API of version 1 or 2, whichever is installed.

Each scenario ends with an assertion that names what went wrong; nothing sleeps, everything waits
for an event.
"""

import argparse
import queue
import ssl
import sys

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

PATIENCE = 60
V2 = hasattr(mqtt, "CallbackAPIVersion")


class Client:
    """A connected client whose events are queues."""

    def __init__(self, options, name, clean=True, user=None, will=None, expect=0):
        self.version = options.version
        self.events = queue.Queue()
        self.messages = queue.Queue()
        arguments = {"client_id": name, "protocol": options.version}
        if options.websocket:
            arguments["transport"] = "websockets"
        if options.version != mqtt.MQTTv5:
            arguments["clean_session"] = clean
        if V2:
            arguments["callback_api_version"] = mqtt.CallbackAPIVersion.VERSION2
        self.client = mqtt.Client(**arguments)
        if options.websocket:
            self.client.ws_set_options(path="/mqtt")
        if options.cafile:
            self.client.tls_set(options.cafile, cert_reqs=ssl.CERT_REQUIRED)
        if user:
            self.client.username_pw_set(*user)
        if will:
            self.client.will_set(*will)
        # Both APIs end with the reason and, in version 5, properties; only places differ.
        self.client.on_connect = lambda *all: self.events.put(("connect", all[2:]))
        self.client.on_subscribe = lambda *all: self.events.put(("subscribe", all[3]))
        self.client.on_publish = lambda *all: self.events.put(("publish", all[2]))
        self.client.on_disconnect = lambda *all: self.events.put(("disconnect", all[2:]))
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        extra = {}
        if options.version == mqtt.MQTTv5:
            extra["clean_start"] = clean
            extra["properties"] = Properties(PacketTypes.CONNECT)
            extra["properties"].SessionExpiryInterval = 0 if clean else 1000
        self.client.connect("localhost" if options.cafile else "127.0.0.1", options.port, **extra)
        self.client.loop_start()
        flags, reason = self.event("connect")[:2]
        self.present = flags.session_present if V2 else bool(flags["session present"])
        code = getattr(reason, "value", reason)
        assert code == expect or (expect and code), f"CONNACK {code}, expected {expect}"

    def event(self, kind):
        found, details = self.events.get(timeout=PATIENCE)
        assert found == kind, f"{found} {details} where {kind} was expected"
        return details

    def subscribe(self, topic, qos, **options):
        if options:
            self.client.subscribe(topic, options=SubscribeOptions(qos=qos, **options))
        else:
            self.client.subscribe(topic, qos)
        codes = self.event("subscribe")
        codes = codes if isinstance(codes, (list, tuple)) else [codes]
        return [getattr(code, "value", code) for code in codes]

    def publish(self, topic, payload, qos, retain=False, properties=None):
        self.client.publish(topic, payload, qos, retain, properties)
        self.event("publish")

    def message(self):
        return self.messages.get(timeout=PATIENCE)

    def close(self):
        self.client.disconnect()
        self.event("disconnect")
        self.client.loop_stop()


def round_trip(options):
    """Every level, retained messages, and properties where there are some."""
    subscriber = Client(options, "subscriber")
    publisher = Client(options, "publisher")
    for qos in (0, 1, 2):
        assert subscriber.subscribe(f"level/{qos}/+", qos) == [qos]
        for number in range(20):
            publisher.publish(f"level/{qos}/x", f"{qos} {number}", qos)
        for number in range(20):
            message = subscriber.message()
            assert message.payload.decode() == f"{qos} {number}", message.payload
            assert message.qos == qos
    publisher.publish("kept/a", "kept", 1, retain=True)
    subscriber.subscribe("kept/#", 1)
    message = subscriber.message()
    assert (message.topic, message.payload, message.retain) == ("kept/a", b"kept", True)
    publisher.publish("kept/a", "", 1, retain=True)
    assert subscriber.message().payload == b""
    if options.version == mqtt.MQTTv5:
        properties = Properties(PacketTypes.PUBLISH)
        properties.UserProperty = [("b", "2"), ("a", "1"), ("b", "3")]
        properties.ResponseTopic = "answers"
        properties.CorrelationData = b"\0\xff"
        properties.ContentType = "text/plain"
        publisher.publish("level/1/p", "with properties", 1, properties=properties)
        got = subscriber.message().properties
        assert got.UserProperty == [("b", "2"), ("a", "1"), ("b", "3")], got
        assert (got.ResponseTopic, got.CorrelationData) == ("answers", b"\0\xff")
        assert got.ContentType == "text/plain"
    subscriber.close()
    publisher.close()


def sessions(options):
    """What a subscriber misses waits for it; nothing comes twice."""
    keeper = Client(options, "keeper", clean=False)
    assert not keeper.present
    assert keeper.subscribe("missed/#", 2) == [2]
    keeper.close()
    publisher = Client(options, "publisher")
    for qos in (1, 2):
        publisher.publish("missed/x", f"level {qos}", qos)
    keeper = Client(options, "keeper", clean=False)
    # MQTT 3.1 reserves the byte in which later versions report the session.
    assert keeper.present == (options.version != mqtt.MQTTv31)
    assert [keeper.message().payload for _ in range(2)] == [b"level 1", b"level 2"]
    publisher.publish("missed/x", "now", 1)
    assert keeper.message().payload == b"now"
    assert keeper.messages.empty()
    keeper.close()
    keeper = Client(options, "keeper", clean=True)
    assert not keeper.present
    keeper.close()
    publisher.close()


def wills(options):
    """The will of a client that is cut off is published; of one that says goodbye it is not."""
    watcher = Client(options, "watcher")
    watcher.subscribe("wills/#", 1)
    polite = Client(options, "polite", will=("wills/polite", "gone", 1, False))
    polite.close()
    lost = Client(options, "lost", will=("wills/lost", "gone", 1, True))
    lost.client._sock_close()
    message = watcher.message()
    assert (message.topic, message.payload) == ("wills/lost", b"gone"), message.topic
    watcher.close()


def shared(options):
    """A group shares what is published; each publication comes once to one of them."""
    members = [Client(options, f"member {number}") for number in range(3)]
    for member in members:
        member.subscribe("$share/group/work/#", 1)
    publisher = Client(options, "publisher")
    for number in range(30):
        publisher.publish("work/x", str(number), 1)
    got = []
    while len(got) < 30:
        for member in members:
            try:
                got.append(int(member.messages.get(timeout=0.05).payload))
            except queue.Empty:
                pass
    assert sorted(got) == list(range(30)), got
    for client in [publisher, *members]:
        client.close()


def users(options):
    """anna may publish and subscribe under home/anna only."""
    refused = 134 if options.version == mqtt.MQTTv5 else 4
    wrong = Client(options, "c1", user=("anna", "wrong"), expect=refused)
    wrong.client.loop_stop()
    anna = Client(options, "c2", user=("anna", "secret"))
    denied = 135 if options.version == mqtt.MQTTv5 else 128
    assert anna.subscribe("home/otto/#", 0) == [denied]
    assert anna.subscribe("home/anna/#", 0) == [0]
    anna.publish("home/otto/x", "not heard", 1)
    anna.publish("home/anna/x", "heard", 1)
    assert anna.message().payload == b"heard"
    anna.close()


def retained_limit(options):
    """One message may be retained: a publication beyond it stops nothing that comes after it."""
    subscriber = Client(options, "subscriber")
    subscriber.subscribe("state/#", 1)
    publisher = Client(options, "publisher", clean=False)
    publisher.publish("state/first", "retained", 1, retain=True)
    assert subscriber.message().payload == b"retained"
    publisher.client.publish("state/second", "too many", 1, retain=True)
    if options.version == mqtt.MQTTv5:
        publisher.event("publish")
    else:
        # The end of the connection says it; paho connects again and repeats the publication.
        publisher.event("disconnect")
        publisher.event("connect")
        publisher.event("publish")
    assert subscriber.message().payload == b"too many"
    publisher.publish("state/third", "not retained", 1)
    payload = subscriber.message().payload
    if options.version != mqtt.MQTTv5:
        assert payload == b"too many", payload
        payload = subscriber.message().payload
    assert payload == b"not retained", payload
    subscriber.close()
    publisher.close()
    Client(options, "publisher").close()
    later = Client(options, "later")
    later.subscribe("state/#", 1)
    assert later.message().topic == "state/first"
    assert later.messages.empty()
    # The next client of this server may retain a message again.
    later.publish("state/first", "", 1, retain=True)
    later.close()


SCENARIOS = {
    "round-trip": round_trip,
    "sessions": sessions,
    "wills": wills,
    "retained-limit": retained_limit,
    "shared": shared,
    "users": users,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--version", type=int, choices=(3, 4, 5), required=True)
    parser.add_argument("--cafile")
    parser.add_argument("--websocket", action="store_true")
    options = parser.parse_args()
    SCENARIOS[options.scenario](options)
    print("ok")


if __name__ == "__main__":
    sys.exit(main())
