"""The servers of a cluster on loopback, in a folder of their own."""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SERVERS = 3
CONNECTED_WITHIN = 60
JOINED_WITHIN = 60
# The engine elects its leaders, after which the servers are idle.
SETTLED_AFTER = 15
UNUSED = ("smtp", "lmtp", "milter", "pop3", "spamd", "call")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def await_port(port):
    deadline = time.monotonic() + CONNECTED_WITHIN
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                sys.exit(f"benchmarks/cluster/run: nothing listens on port {port}")
            time.sleep(0.1)


class Servers:
    """Processes, and the MQTT port of each node."""

    def __init__(self):
        self.folder = tempfile.mkdtemp()
        self.processes = []
        self.ports = []

    def start(self, name, config, command):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        log = open(path + ".log", "w", encoding="utf-8")
        process = subprocess.Popen([*command, path], stdout=log, stderr=log, cwd=self.folder)
        self.processes.append(process)

    def start_nats(self, has_mqtt):
        ports = [free_port() for _ in range(SERVERS * 3)]
        clients, routes, mqtt = ports[:3], ports[3:6], ports[6:]
        urls = ", ".join(f'"nats://127.0.0.1:{port}"' for port in routes)
        for number in range(SERVERS):
            listener = f"mqtt {{ listen: 127.0.0.1:{mqtt[number]}, stream_replicas: 3 }}" if has_mqtt else ""
            config = f"""
listen: 127.0.0.1:{clients[number]}
server_name: n{number}
jetstream {{ store_dir: "{self.folder}/store{number}", sync_interval: always }}
cluster {{ name: c, listen: 127.0.0.1:{routes[number]}, routes: [{urls}], ping_interval: 3s, ping_max: 2 }}
{listener}
"""
            self.start(f"nats{number}", config, ["nats-server", "--config"])
        for port in clients:
            await_port(port)
        if has_mqtt:
            self.ports = mqtt
        return clients

    def start_gatepost(self, program, nodes, nats, more):
        for number in range(1, nodes + 1):
            port = free_port()
            unused = "".join(f"listeners.{name}.bind = []\n" for name in UNUSED)
            urls = ", ".join(f'"nats://127.0.0.1:{port}"' for port in nats)
            config = f"""
data = "{self.folder}/data{number}"
node = {number}
rules.paths = []
{unused}listeners.http.bind = []
listeners.mqtt.bind = ["127.0.0.1:{port}"]
backbone.nats = [{urls}]
backbone.require_sync = false
{more}"""
            self.start(f"node{number}", config, [program, "serve", "--config"])
            self.ports.append(port)
            await_port(port)

    def start_rmqttd(self):
        """RMQTT with its cluster plugin, which keeps sessions and messages in memory."""
        mqtt, calls, raft = ([free_port() for _ in range(SERVERS)] for _ in range(3))
        addresses = [
            ", ".join(f'"{number + 1}@127.0.0.1:{port}"' for number, port in enumerate(ports)) for ports in (calls, raft)]
        plugins = os.path.join(self.folder, "plugins")
        os.mkdir(plugins)
        with open(os.path.join(plugins, "rmqtt-cluster-raft.toml"), "w", encoding="utf-8") as file:
            file.write(f"leader_id = 1\nnode_grpc_addrs = [{addresses[0]}]\nraft_peer_addrs = [{addresses[1]}]\n")
        for number in range(SERVERS):
            config = f"""
log.to = "console"
log.level = "warn"
plugins.dir = "{plugins}/"
plugins.default_startups = ["rmqtt-cluster-raft"]
plugins.disabled_default_startups = ["rmqtt-http-api"]
rpc.server_addr = "127.0.0.1:{calls[number]}"
listener.tcp.external.addr = "127.0.0.1:{mqtt[number]}"
"""
            self.start(f"rmqttd{number}.toml", config, ["rmqttd", "--id", str(number + 1), "--config"])
        for port in mqtt:
            await_port(port)
        self.ports = mqtt

    def await_joined(self, nodes):
        """Waits until each node is part of the cluster."""
        deadline = time.monotonic() + JOINED_WITHIN
        for number in range(1, nodes + 1):
            path = os.path.join(self.folder, f"node{number}.log")
            while True:
                with open(path, encoding="utf-8") as log:
                    if "this server is part of its cluster" in log.read():
                        break
                if time.monotonic() > deadline:
                    sys.exit(f"benchmarks/cluster/run: node {number} does not join the cluster")
                time.sleep(0.1)

    def processor_time(self):
        """Seconds of all processes."""
        ticks = 0
        for process in self.processes:
            with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
                fields = file.read().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
        shutil.rmtree(self.folder)


def gatepost_nodes(count):
    """A function that starts this many nodes, over three NATS servers if there is more than one."""
    def start(servers, program, more):
        if count == 1:
            servers.start_gatepost(program, 1, [], "")
        else:
            servers.start_gatepost(program, count, servers.start_nats(False), more)
            servers.await_joined(count)
    return start


SYSTEMS = {
    "gatepost, 1 node": gatepost_nodes(1),
    "gatepost, 2 nodes": gatepost_nodes(2),
    "gatepost, 3 nodes": gatepost_nodes(3),
    "NATS, 3 servers": lambda servers, _program, _more: servers.start_nats(True),
    "rmqttd, 3 nodes": lambda servers, _program, _more: servers.start_rmqttd(),
}


@contextlib.contextmanager
def running(system, program, more):
    """The servers of a system, which end with the block, also if they do not start."""
    servers = Servers()
    try:
        SYSTEMS[system](servers, program, more)
        time.sleep(SETTLED_AFTER)
        yield servers
    finally:
        servers.end()
