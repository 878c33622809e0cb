"""Subscriptions to many filters, and sessions that move or are adopted."""

import os
import re
import socket
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from mqtt import connect_packet, connected, receive, subscribe_packet
from servers import SERVERS

IDLE_SECONDS = 4
SETTLED_AFTER = 3

MOVED_SESSIONS = 2_000
AT_ONCE = 32
ADOPTED_SESSIONS = 100_000
# The key of the node expires, and backbone.adopt_after passes.
ADOPT_AFTER = "5s"
ADOPTED_WITHIN = 300

FILTER_CLIENTS = 100
FILTERS_OF_CLIENT = 1_000
FILTERS_OF_PACKET = 100


def visit(port, number, subscribes):
    """Connects with the client's session, subscribes if it is new, and disconnects; returns the time until CONNACK."""
    name = f"mover{os.getpid()}-{number}"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.monotonic()
        connection.sendall(connect_packet(name, False))
        answer = receive(connection, 4)
        taken = time.monotonic() - begun
        # CONNACK, session present or not, success.
        assert answer == bytes([0x20, 2, 0 if subscribes else 1, 0]), answer
        if subscribes:
            connection.sendall(subscribe_packet([f"moves/{number}"], 1))
            receive(connection, 5)
        connection.sendall(b"\xe0\x00")
    return taken


def subscribe_many(connection, client):
    """Subscribes to the filters of one client."""
    filters = [f"filters/{client}/{number}" for number in range(FILTERS_OF_CLIENT)]
    for first in range(0, FILTERS_OF_CLIENT, FILTERS_OF_PACKET):
        connection.sendall(subscribe_packet(filters[first:first + FILTERS_OF_PACKET], 0))
        # SUBACK: two bytes of the header, the identifier, and a code for each filter.
        answer = receive(connection, 4 + FILTERS_OF_PACKET)
        assert answer[4:] == bytes(FILTERS_OF_PACKET), answer


def measure_filters(servers):
    """Filters a second, and microseconds of the servers for each; the servers work on after the last SUBACK."""
    connections = []
    for client in range(FILTER_CLIENTS):
        port = servers.ports[client % len(servers.ports)]
        connections.append(connected(port, f"filters{os.getpid()}-{client}"))
    idle = servers.processor_time()
    time.sleep(IDLE_SECONDS)
    before, begun = servers.processor_time(), time.monotonic()
    idle = (before - idle) / IDLE_SECONDS
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(subscribe_many, connections, range(FILTER_CLIENTS)))
    seconds = time.monotonic() - begun
    time.sleep(SETTLED_AFTER)
    used = servers.processor_time() - before - idle * (time.monotonic() - begun)
    for connection in connections:
        connection.close()
    filters = FILTER_CLIENTS * FILTERS_OF_CLIENT
    return filters / seconds, used * 1e6 / filters


def measure_moves(servers):
    """Moves a second, seconds of the median move, and microseconds of the servers for each."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        first, second = servers.ports[:2]
        list(pool.map(lambda number: visit(first, number, True), range(MOVED_SESSIONS)))
        before, begun = servers.processor_time(), time.monotonic()
        taken = list(pool.map(lambda number: visit(second, number, False), range(MOVED_SESSIONS)))
        seconds, used = time.monotonic() - begun, servers.processor_time() - before
    return MOVED_SESSIONS / seconds, statistics.median(taken), used * 1e6 / MOVED_SESSIONS


def measure_adoption(servers):
    """Kills the second node; returns the adopted sessions, and the milliseconds that the adoption took."""
    second = servers.ports[1]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda number: visit(second, number, True), range(ADOPTED_SESSIONS)))
    servers.processes[SERVERS + 1].kill()
    deadline = time.monotonic() + ADOPTED_WITHIN
    pattern = re.compile(r"sessions of a failed node are here now node=2 sessions=(\d+) milliseconds=(\d+)")
    while time.monotonic() < deadline:
        for node in (1, 3):
            with open(os.path.join(servers.folder, f"node{node}.log"), encoding="utf-8") as log:
                found = pattern.search(log.read())
            if found:
                return int(found[1]), int(found[2])
        time.sleep(0.5)
    sys.exit("benchmarks/cluster/run: no node adopts the sessions")
