"""Carries frames between two network interfaces, late and with losses.

slow_cable.py ONE OTHER DELAY_MS LOSS_PERCENT; prints a line when it begins.
"""

import collections
import random
import select
import socket
import sys
import time

SOL_PACKET, PACKET_VNET_HDR = 263, 15
ETH_P_ALL, PACKET_OUTGOING = 3, 4


def interface(name):
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    # With this header, a frame may be a large segment without a checksum, as a virtual cable has it.
    sock.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    sock.bind((name, 0))
    return sock


one, other, delay, loss = sys.argv[1:]
delay, loss = int(delay) / 1000, int(loss) / 100
ends = [interface(one), interface(other)]
opposite = {ends[0]: ends[1], ends[1]: ends[0]}
waiting = collections.deque()
print("ready", flush=True)
while True:
    wait = max(0, waiting[0][0] - time.monotonic()) if waiting else None
    for sock in select.select(ends, [], [], wait)[0]:
        frame, address = sock.recvfrom(1 << 17)
        if address[2] != PACKET_OUTGOING and random.random() >= loss:
            waiting.append((time.monotonic() + delay, opposite[sock], frame))
    while waiting and waiting[0][0] <= time.monotonic():
        try:
            waiting[0][1].send(waiting[0][2])
        except OSError:
            pass  # A full interface loses frames too.
        waiting.popleft()
