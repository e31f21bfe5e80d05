#!/usr/bin/env python3
"""Network namespaces with a switch between them, which can be told to be bad.

  wires.py NODES SEED

Makes a namespace for each node. In it is one device, a tun, with the address
10.213.0.N; what is sent there comes out here as packets, and is handed to the
namespace it is for: late, twice, or not at all, as links.py says. That is what
the kernel's netem does, which many kernels do not have; a tun device and the
right to make namespaces is all this needs.

Prints "ready" and, for each node, the number of a file descriptor of this
process that is its namespace: `nsenter --net=/proc/PID/fd/N` runs a program
there. The namespaces have no names and nothing else in them, so they end with
this process and the last program inside.
"""

import ctypes
import fcntl
import heapq
import os
import random
import selectors
import socket
import struct
import sys
import time

from links import all_links, read_command

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
SIOCSIFFLAGS, SIOCSIFADDR = 0x8914, 0x8916
SIOCSIFNETMASK, SIOCSIFMTU = 0x891C, 0x8922
IFF_UP_RUNNING = 0x41
MTU = 9000
BACKLOG_S = 1.0  # more than that waits nowhere: it is dropped
NAME = b"corvo0"


def address(n):
    return f"10.213.0.{n}"


def ask(sock, what, name, value):
    fcntl.ioctl(sock, what, struct.pack("16s24s", name, value))


def inet(text):
    return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))


def make_namespace(n):
    """(file descriptor of a new namespace, of the device in it)"""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), "unshare")
    space = os.open("/proc/self/ns/net", os.O_RDONLY)
    tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    ask(tun, TUNSETIFF, NAME, struct.pack("H22x", IFF_TUN | IFF_NO_PI))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        ask(s, SIOCSIFFLAGS, b"lo", struct.pack("H22x", IFF_UP_RUNNING))
        ask(s, SIOCSIFADDR, NAME, inet(address(n)))
        ask(s, SIOCSIFNETMASK, NAME, inet("255.255.255.0"))
        ask(s, SIOCSIFMTU, NAME, struct.pack("i20x", MTU))
        ask(s, SIOCSIFFLAGS, NAME, struct.pack("H22x", IFF_UP_RUNNING))
    return space, tun


class Switch:
    def __init__(self, tuns, seed):
        self.tuns = tuns
        self.rng = random.Random(f"{seed} wires")
        self.links = all_links(len(tuns), self.rng)
        self.late = []  # heap of (when, number, tun, packet)
        self.count = 0

    def take(self, packet):
        """From one of the nodes; for another, if it is what it should be."""
        if len(packet) < 20 or packet[0] >> 4 != 4:
            return
        link = self.links.get(f"{packet[15]}>{packet[19]}")
        if link is None or link.cut or self.rng.random() < link.loss:
            return
        tun = self.tuns[packet[19] - 1]
        now = time.monotonic()
        for _ in range(2 if self.rng.random() < link.double else 1):
            due = link.due(now, len(packet))
            if due <= now:
                self.give(tun, packet)
            elif not link.rate or due < now + BACKLOG_S:
                self.count += 1
                heapq.heappush(self.late, (due, self.count, tun, packet))

    def give(self, tun, packet):
        try:
            os.write(tun, packet)
        except BlockingIOError:
            pass  # its queue is full: a packet is lost, as packets are

    def give_late(self):
        """Those whose time has come; seconds until the next one."""
        now = time.monotonic()
        while self.late and self.late[0][0] <= now:
            _, _, tun, packet = heapq.heappop(self.late)
            self.give(tun, packet)
        return self.late[0][0] - now if self.late else None

    def drain(self, tun):
        try:
            while True:
                self.take(os.read(tun, 65536))
        except BlockingIOError:
            pass

    def run(self):
        s = selectors.DefaultSelector()
        for tun in self.tuns:
            s.register(tun, selectors.EVENT_READ)
        s.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in s.select(self.give_late()):
                if key.fd != 0:
                    self.drain(key.fd)
                    continue
                line = sys.stdin.readline()
                if not line:
                    return
                read_command(line, self.links)
                print("ok", flush=True)


def main(nodes, seed):
    made = [make_namespace(n + 1) for n in range(int(nodes))]
    print("ready", *(space for space, _ in made), flush=True)
    Switch([tun for _, tun in made], seed).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
