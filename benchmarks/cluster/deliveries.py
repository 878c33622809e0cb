"""Deliveries at a fixed rate, and the processor time that the servers need for each."""

import os
import subprocess
import threading
import time
from collections import namedtuple

from mqtt import Subscribers, connected, publish_packet
from servers import SERVERS

SECONDS = 8
TICK = 0.05
IDLE_SECONDS = 4
# The time for subscriptions, and the longest one for messages on their way.
SUBSCRIBED_AFTER = 3
ARRIVED_WITHIN = 300
# More subscribers are connections of one process.
SUBSCRIBER_PROCESSES_MAX = 500

# Publishers; subscribers of each at each of three nodes (none: one, at the next node); QoS; messages a second of each
# publisher, and their bytes.
Workload = namedtuple("Workload", "publishers subscribers qos rate size")
WORKLOADS = {
    "FANOUT": Workload(5, 200, 0, 10, 1000),
    "few": Workload(1, 30, 0, 200, 128),
    "pairs": Workload(30, None, 0, 40, 128),
    "durable": Workload(10, None, 1, 100, 128),
    "loaded": Workload(10, None, 1, 1000, 128),
    "full": Workload(40, None, 1, 2000, 128),
}
Figures = namedtuple("Figures", "microseconds idle complete")


class Usage:
    """The processor time of servers, without what they use when idle."""

    def __init__(self, servers):
        self.servers = servers
        before = servers.processor_time()
        time.sleep(IDLE_SECONDS)
        self.before, self.begun = servers.processor_time(), time.monotonic()
        self.idle = (self.before - before) / IDLE_SECONDS

    def seconds(self):
        passed = time.monotonic() - self.begun
        return self.servers.processor_time() - self.before - self.idle * passed


def topic_of(workload, number):
    return f"{workload}{os.getpid()}-{number}"


def measure(servers, name):
    """Microseconds for each delivery, seconds of idle servers in a second, and the share of the messages that arrived."""
    workload = WORKLOADS[name]
    if workload.publishers * (workload.subscribers or 1) * SERVERS > SUBSCRIBER_PROCESSES_MAX:
        return measure_many(servers, name, workload)
    return measure_clients(servers, name, workload)


def measure_many(servers, name, workload):
    """With connections of this process; a thread of its own reads."""
    subscribers = Subscribers()
    for number in range(workload.publishers):
        for index in range(workload.subscribers * SERVERS):
            port = servers.ports[index % len(servers.ports)]
            subscribers.add(port, f"{topic_of(name, number)}-{index}", topic_of(name, number))
    publishers = [
        connected(servers.ports[number % len(servers.ports)], f"{topic_of(name, number)}-publisher")
        for number in range(workload.publishers)]
    packets = [publish_packet(topic_of(name, number), b"x" * workload.size) for number in range(workload.publishers)]
    time.sleep(SUBSCRIBED_AFTER)
    usage = Usage(servers)
    messages = workload.rate * SECONDS
    deliveries = messages * len(subscribers.connections)
    expected = sum(map(len, packets)) * messages * workload.subscribers * SERVERS
    reader = subscribers.reader(expected, time.monotonic() + ARRIVED_WITHIN)
    for message in range(messages):
        for number, publisher in enumerate(publishers):
            due = usage.begun + (message + number / workload.publishers) / workload.rate
            time.sleep(max(0, due - time.monotonic()))
            publisher.sendall(packets[number])
    reader.join()
    used = usage.seconds()
    for publisher in publishers:
        publisher.close()
    subscribers.close()
    return Figures(used * 1e6 / deliveries, usage.idle, subscribers.bytes / expected)


def client(program, servers, node, topic, qos, more, **pipes):
    port = servers.ports[node % len(servers.ports)]
    command = [program, "-p", str(port), "-t", topic, "-q", str(qos), *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **pipes)


def publish(process, workload):
    """Writes lines at this rate, each of which is a message."""
    messages, line = workload.rate * SECONDS, "x" * workload.size + "\n"
    begun = time.monotonic()
    sent = 0
    while sent < messages:
        time.sleep(TICK)
        due = min(messages, int((time.monotonic() - begun) * workload.rate))
        process.stdin.write(line * (due - sent))
        process.stdin.flush()
        sent = due
    process.stdin.close()
    process.wait()


def measure_clients(servers, name, workload):
    """With mosquitto_pub and mosquitto_sub."""
    messages = workload.rate * SECONDS
    subscribers = []
    for number in range(workload.publishers):
        topic = topic_of(name, number)
        fan = workload.subscribers
        nodes = [node for node in range(SERVERS) for _ in range(fan)] if fan else [number + 1]
        for node in nodes:
            kept = ["-c", "-i", f"{topic}-{node}"] if workload.qos else []
            more = ["-C", str(messages), "-W", str(ARRIVED_WITHIN), *kept]
            subscribers.append(client("mosquitto_sub", servers, node, topic, workload.qos, more))
    time.sleep(SUBSCRIBED_AFTER)
    usage = Usage(servers)
    threads = []
    for number in range(workload.publishers):
        process = client("mosquitto_pub", servers, number, topic_of(name, number), workload.qos, ["-l"],
                         stdin=subprocess.PIPE, text=True)
        threads.append(threading.Thread(target=publish, args=(process, workload)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    complete = sum(subscriber.wait() == 0 for subscriber in subscribers)
    used = usage.seconds()
    return Figures(used * 1e6 / (len(subscribers) * messages), usage.idle, complete / len(subscribers))
