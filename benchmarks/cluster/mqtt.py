"""Packets of MQTT 3.1.1, and many subscribers in one process."""

import selectors
import socket
import threading
import time

RECEIVED_AT_ONCE = 1 << 16


def text(value):
    return len(value).to_bytes(2, "big") + value.encode()


def packet(first, body):
    length, rest = bytearray(), len(body)
    while rest >= 128:
        length.append(rest % 128 + 128)
        rest //= 128
    return bytes([first, *length, rest]) + body


def connect_packet(name, is_clean):
    return packet(0x10, text("MQTT") + (b"\x04\x02" if is_clean else b"\x04\x00") + b"\x00\x00" + text(name))


def subscribe_packet(filters, qos):
    return packet(0x82, b"\x00\x01" + b"".join(text(one) + bytes([qos]) for one in filters))


def publish_packet(topic, payload):
    return packet(0x30, text(topic) + payload)


def receive(connection, count):
    received = b""
    while len(received) < count:
        more = connection.recv(count - len(received))
        if not more:
            raise ConnectionError("the server has closed the connection")
        received += more
    return received


def connected(port, name):
    """A connection with a clean session."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(connect_packet(name, True))
    answer = receive(connection, 4)
    assert answer[3] == 0, answer
    return connection


class Subscribers:
    """Connections that are subscribed to one topic each, at QoS 0, and count the bytes of their messages."""

    def __init__(self):
        self.selector = selectors.DefaultSelector()
        self.connections = []
        self.bytes = 0

    def add(self, port, name, topic):
        connection = connected(port, name)
        connection.sendall(subscribe_packet([topic], 0))
        answer = receive(connection, 5)
        assert answer[4] == 0, answer
        connection.setblocking(False)
        self.connections.append(connection)
        self.selector.register(connection, selectors.EVENT_READ)

    def read(self, expected, deadline):
        """Reads until this many bytes have come, or the time is over."""
        while self.bytes < expected and time.monotonic() < deadline:
            for key, _ in self.selector.select(0.1):
                self.bytes += len(key.fileobj.recv(RECEIVED_AT_ONCE))

    def reader(self, expected, deadline):
        """A thread that reads."""
        thread = threading.Thread(target=self.read, args=(expected, deadline))
        thread.start()
        return thread

    def close(self):
        for connection in self.connections:
            connection.close()
        self.selector.close()
