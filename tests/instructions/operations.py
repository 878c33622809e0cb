"""The operations whose instructions are counted: a client for each, one request at a time.

Every request waits for its answer before the next one is sent, so that the server never finds two in
one read: how many it finds would depend on the speed of the machine, and the count with it.
"""

import socket
import struct

PATIENCE = 60  # seconds for one answer; only a server that hangs takes as long under callgrind
TOPIC = b"measured/topic"
RECEIVERS = 50


def connect(port):
    client = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def receive(client, length):
    """Exactly this many bytes."""
    data = b""
    while len(data) < length:
        part = client.recv(length - len(data))
        if not part:
            raise ConnectionError("the server closed the connection")
        data += part
    return data


def receive_until(client, end):
    data = b""
    while not data.endswith(end):
        part = client.recv(65536)
        if not part:
            raise ConnectionError("the server closed the connection")
        data += part
    return data


class MqttClient:
    """A session of MQTT 3.1.1, as much of it as is counted."""

    def __init__(self, port, name):
        self.socket = connect(port)
        body = b"\0\x04MQTT\x04\x02\0\0" + struct.pack(">H", len(name)) + name
        self.socket.sendall(bytes([0x10, len(body)]) + body)
        assert receive(self.socket, 4) == b"\x20\x02\0\0", "CONNECT was refused"

    def subscribe(self, topic, number):
        body = struct.pack(">HH", number, len(topic)) + topic + b"\0"
        self.socket.sendall(bytes([0x82, len(body)]) + body)
        assert receive(self.socket, 5) == b"\x90\x03" + struct.pack(">H", number) + b"\0", "SUBSCRIBE was refused"


class Delivery:
    """Deliveries of 100 bytes at QoS 0, each publication to 50 receivers."""

    def __init__(self, ports):
        self.publisher = MqttClient(ports["mqtt"], b"publisher")
        self.receivers = [MqttClient(ports["mqtt"], b"receiver%d" % number) for number in range(RECEIVERS)]
        for receiver in self.receivers:
            receiver.subscribe(TOPIC, 1)
        body = struct.pack(">H", len(TOPIC)) + TOPIC + b"x" * 100
        self.packet = bytes([0x30, len(body)]) + body

    def perform(self, count):
        for _ in range(count // RECEIVERS):
            self.publisher.socket.sendall(self.packet)
            for receiver in self.receivers:
                assert receive(receiver.socket, len(self.packet)) == self.packet, "another packet arrived"


class Subscription:
    """Subscriptions of one session, each to a topic of its own and acknowledged."""

    def __init__(self, ports):
        self.client = MqttClient(ports["mqtt"], b"subscriber")
        self.number = 0

    def perform(self, count):
        for _ in range(count):
            self.number += 1
            self.client.subscribe(b"sensor/%d/temperature" % self.number, self.number)


class Page:
    """Requests of a page of 2 KB with one insertion point, over a kept connection."""

    def __init__(self, ports):
        self.client = connect(ports["http"])

    def perform(self, count):
        for _ in range(count):
            self.client.sendall(b"GET /measured HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head, _, body = receive_until(self.client, b"</html>\n").partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ") and body, head.decode()


class Call:
    """Calls of a built-in procedure, over a kept connection."""

    def __init__(self, ports):
        self.client = connect(ports["call"])

    def perform(self, count):
        for _ in range(count):
            self.client.sendall(b"CALL/1 /sizecheck\nsize: 4000\n\n")
            answer = receive_until(self.client, b"\n\n")
            assert answer.startswith(b"DONE "), answer.decode()


class Mail:
    """Mails of the public corpus by spamd's protocol, each seen for the first time."""

    def __init__(self, ports, mails):
        self.port = ports["spamd"]
        self.mails = iter(mails)

    def perform(self, count):
        for _ in range(count):
            mail = next(self.mails)
            with connect(self.port) as client:
                client.sendall(b"CHECK SPAMC/1.5\r\nContent-length: %d\r\n\r\n" % len(mail) + mail)
                client.shutdown(socket.SHUT_WR)
                answer = b""
                while part := client.recv(65536):
                    answer += part
            assert b"EX_OK" in answer and b"Spam: " in answer, repr(answer)


MAILS = 50
# The other operations, with the number of one count.
REPEATED = {
    "delivery": (Delivery, 10_000),
    "subscription": (Subscription, 1_000),
    "page": (Page, 1_000),
    "call": (Call, 1_000),
}
