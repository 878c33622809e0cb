#!/usr/bin/env python3
"""The statements of Sparkplug 3.0 about MQTT servers, with an edge node of pysparkplug.

Each case is named after the statement that it checks, and ends with an assertion that says what is
wrong; nothing sleeps, everything waits for an event. Payloads are made and read by pysparkplug,
which uses Google's protocol buffers.
"""

import argparse
import queue
import socket
import time

import paho.mqtt.client as mqtt
import pysparkplug as spb
from pysparkplug import _protobuf

PATIENCE = 60
CERTIFICATES = "$sparkplug/certificates/"


class Host:
    """A subscriber whose messages are a queue."""

    def __init__(self, port, name, *filters, qos=1, will=None, user=None):
        self.messages = queue.Queue()
        self.events = queue.Queue()
        self.client = mqtt.Client(client_id=name)
        if will:
            self.client.will_set(*will)
        if user:
            self.client.username_pw_set(*user)
        self.client.on_connect = lambda *all: self.events.put(all[3])
        self.client.on_subscribe = lambda *all: self.events.put(all[3])
        self.client.on_publish = lambda *all: self.events.put(all[2])
        self.client.on_message = lambda _client, _data, message: self.messages.put(message)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self.events.get(timeout=PATIENCE) == 0, "the login is refused"
        for name in filters:
            self.client.subscribe(name, qos)
            assert self.events.get(timeout=PATIENCE) == (qos,), f"{name} is refused"

    def publish(self, topic, payload, qos=1, retain=False):
        self.client.publish(topic, payload, qos, retain)
        self.events.get(timeout=PATIENCE)

    def message(self, topic):
        message = self.messages.get(timeout=PATIENCE)
        assert message.topic == topic, f"{message.topic} where {topic} was expected"
        return message

    def assert_nothing(self):
        """Nothing came before what is published now."""
        self.client.subscribe("end", 1)
        self.events.get(timeout=PATIENCE)
        self.publish("end", "end")
        assert self.message("end").payload == b"end"

    def lose(self):
        """Ends the connection without DISCONNECT."""
        self.client.reconnect_delay_set(PATIENCE, PATIENCE)
        self.client.socket().shutdown(socket.SHUT_RDWR)

    def close(self):
        self.client.disconnect()
        self.client.loop_stop()


class Node:
    """An edge node with one device, connected; its births are published."""

    def __init__(self, port, name, value=1, is_lasting=True):
        metric = lambda name: spb.Metric(
            timestamp=spb.get_current_timestamp(),
            name=name,
            datatype=spb.DataType.INT64,
            value=value,
        )
        options = spb.ClientOptions(reconnect_on_failure=is_lasting)
        self.client = spb.Client(client_id=f"edge-{name}", client_options=options)
        self.node = spb.EdgeNode("G", name, (metric("speed"),), self.client)
        device = spb.Device("D", (metric("heat"),), cmd_callback=lambda _node, _message: None)
        self.node.register(device)
        self.node.connect("127.0.0.1", port=port, blocking=False)

    def lose(self):
        self.client._client.socket().shutdown(socket.SHUT_RDWR)

    def close(self):
        self.node.disconnect()


def speed_of(message):
    births = {"NBIRTH": spb.NBirth, "DBIRTH": spb.DBirth}
    birth = births[message.topic.removeprefix(CERTIFICATES).split("/")[2]]
    metrics = birth.decode(message.payload).metrics
    return [metric.value for metric in metrics if metric.name in ("speed", "heat")]


def death(timestamp):
    metric = spb.Metric(timestamp=7, name="bdSeq", datatype=spb.DataType.INT64, value=200)
    return spb.NDeath(timestamp=timestamp, bd_seq_metric=metric).encode()


def with_qos(port, qos):
    host = Host(port, "host", "spBv1.0/#", qos=qos)
    for number in range(20):
        host.publish("spBv1.0/G/NDATA/q", str(number), qos)
        message = host.message("spBv1.0/G/NDATA/q")
        assert (message.payload, message.qos) == (str(number).encode(), qos)
    host.close()


def wills(port):
    """All aspects of wills: both flags of retain, at QoS 1."""
    host = Host(port, "host", "spBv1.0/STATE/#")
    for retain in (False, True):
        lost = Host(port, "lost", will=("spBv1.0/STATE/h", b"offline", 1, retain))
        lost.lose()
        message = host.message("spBv1.0/STATE/h")
        assert (message.payload, message.qos) == (b"offline", 1)
        late = Host(port, "late", "spBv1.0/STATE/#")
        if retain:
            assert late.message("spBv1.0/STATE/h").retain
            host.publish("spBv1.0/STATE/h", b"", 1, True)
        else:
            late.assert_nothing()
        late.close()


def retained(port):
    host = Host(port, "host")
    host.publish("spBv1.0/STATE/r", b"online", 1, True)
    late = Host(port, "late", "spBv1.0/STATE/r")
    message = late.message("spBv1.0/STATE/r")
    assert (message.payload, message.retain, message.qos) == (b"online", True, 1)
    host.publish("spBv1.0/STATE/r", b"", 1, True)
    assert late.message("spBv1.0/STATE/r").payload == b""
    Host(port, "later", "spBv1.0/STATE/r").assert_nothing()


def certificate(port, kind, name, is_late):
    """The copy of a birth, for a subscriber that was there before or comes later."""
    topic = f"spBv1.0/G/{kind}/{name}" + ("/D" if kind == "DBIRTH" else "")
    copy = CERTIFICATES + topic
    original = Host(port, "original", topic)
    watcher = None if is_late else Host(port, "watcher", copy)
    node = Node(port, name, value=42)
    birth = original.message(topic)
    assert not birth.retain
    if is_late:
        watcher = Host(port, "watcher", f"{CERTIFICATES}spBv1.0/G/{kind}/{name}/#")
    message = watcher.message(copy)
    assert message.payload == birth.payload, "the copy is another payload"
    assert message.retain == is_late
    assert speed_of(message) == [42]
    # The original is not retained.
    Host(port, "late", topic).assert_nothing()
    # The next birth takes the place of this one.
    node.close()
    again = Node(port, name, value=43)
    original.message(topic)
    assert speed_of(watcher.message(copy)) == [43]
    newest = Host(port, "newest", copy)
    message = newest.message(copy)
    assert (speed_of(message), message.retain) == ([43], True)
    newest.assert_nothing()
    again.close()


def store(port):
    """Leaves the births of a node that another case finds after a restart."""
    topic = "spBv1.0/G/DBIRTH/kept/D"
    host = Host(port, "host", CERTIFICATES + topic)
    node = Node(port, "kept", value=77)
    assert speed_of(host.message(CERTIFICATES + topic)) == [77]
    node.close()
    # An empty birth removes its certificate.
    host.publish("spBv1.0/G/NBIRTH/gone", b"x")
    host.publish("spBv1.0/G/NBIRTH/gone", b"")


def stored(port):
    host = Host(port, "host", CERTIFICATES + "#")
    found = {}
    for _ in range(2):
        message = host.messages.get(timeout=PATIENCE)
        found[message.topic] = (speed_of(message), message.retain)
    expected = {
        f"{CERTIFICATES}spBv1.0/G/NBIRTH/kept": ([77], True),
        f"{CERTIFICATES}spBv1.0/G/DBIRTH/kept/D": ([77], True),
    }
    assert found == expected, found
    host.assert_nothing()


def death_timestamps(port, is_replaced=True):
    topic = "spBv1.0/G/NDEATH/dying"
    host = Host(port, "host", topic)
    before = time.time_ns() // 1_000_000
    payloads = [death(5), death(None)]
    for payload in payloads:
        Host(port, "dying", will=(topic, payload, 1, False)).lose()
        assert_death(host.message(topic), payload, before, is_replaced)
        host.publish(topic, payload)
        assert_death(host.message(topic), payload, before, is_replaced)
    node = Node(port, "dying", is_lasting=False)
    Host(port, "watcher", "spBv1.0/G/DBIRTH/dying/D", CERTIFICATES + "#").messages.get(
        timeout=PATIENCE
    )
    after = time.time_ns() // 1_000_000
    node.lose()
    read = _protobuf.Payload.FromString(host.message(topic).payload)
    assert read.timestamp >= after, "the time of the connection"
    assert [metric.name for metric in read.metrics] == ["bdSeq"]
    # Other deaths, and what is no payload, remain as they are.
    for other in ("spBv1.0/G/DDEATH/dying/D", "spBv1.0/G/NDEATH/dying/x", "x/G/NDEATH/dying"):
        subscriber = Host(port, "other", other)
        subscriber.publish(other, payloads[0])
        assert subscriber.message(other).payload == payloads[0]
    for malformed in (b"\x08", b"{}", b"\x0a\x01x", b"\xff" * 40):
        host.publish(topic, malformed)
        assert host.message(topic).payload == malformed


def assert_death(message, sent, before, is_replaced):
    if not is_replaced:
        assert message.payload == sent, "the payload is changed"
        return
    after = time.time_ns() // 1_000_000
    read = _protobuf.Payload.FromString(message.payload)
    assert before <= read.timestamp <= after, f"{before} {read.timestamp} {after}"
    expected = _protobuf.Payload.FromString(sent)
    expected.timestamp = read.timestamp
    assert read == expected, "another field is changed"


def nothing_is_copied(port):
    """A server without the setting: no copies, no other timestamp."""
    host = Host(port, "host", "spBv1.0/#", CERTIFICATES + "#")
    node = Node(port, "plain")
    for topic in ("spBv1.0/G/NBIRTH/plain", "spBv1.0/G/DBIRTH/plain/D"):
        host.message(topic)
    host.assert_nothing()
    node.close()
    death_timestamps_off = death(5)
    watcher = Host(port, "watcher", "spBv1.0/G/NDEATH/other")
    watcher.publish("spBv1.0/G/NDEATH/other", death_timestamps_off)
    assert watcher.message("spBv1.0/G/NDEATH/other").payload == death_timestamps_off


CASES = {
    "tck-id-conformance-mqtt-qos0": lambda port: with_qos(port, 0),
    "tck-id-conformance-mqtt-qos1": lambda port: with_qos(port, 1),
    "tck-id-conformance-mqtt-will-messages": wills,
    "tck-id-conformance-mqtt-retained": retained,
    "tck-id-conformance-mqtt-aware-store": store,
    "tck-id-conformance-mqtt-aware-store-restarted": stored,
    "tck-id-conformance-mqtt-aware-nbirth-mqtt-topic":
        lambda port: certificate(port, "NBIRTH", "n1", False),
    "tck-id-conformance-mqtt-aware-nbirth-mqtt-retain":
        lambda port: certificate(port, "NBIRTH", "n2", True),
    "tck-id-conformance-mqtt-aware-dbirth-mqtt-topic":
        lambda port: certificate(port, "DBIRTH", "d1", False),
    "tck-id-conformance-mqtt-aware-dbirth-mqtt-retain":
        lambda port: certificate(port, "DBIRTH", "d2", True),
    "tck-id-conformance-mqtt-aware-ndeath-timestamp": death_timestamps,
    "without-the-setting": nothing_is_copied,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("case", choices=sorted(CASES))
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    CASES[options.case](options.port)


main()
