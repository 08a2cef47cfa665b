#!/usr/bin/env python3
"""A NAT for UDP over IPv4, for kernels without one: packets that come by a tun device leave from ports of an address of this host, and what comes back
to a port from where it was used for goes to its owner (RFC 4787: the mapping depends on the owner alone, the filter on address and port).

    nat.py DEVICE ADDRESS

makes the device. SIGUSR1 makes it forget all ports, as after a restart.
"""

import fcntl
import os
import selectors
import signal
import socket
import struct
import sys

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 1, 0x1000
UDP = 17


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(source, destination, payload):
    udp = struct.pack("!4H", source[1], destination[1], 8 + len(payload), 0)
    ends = socket.inet_aton(source[0]) + socket.inet_aton(destination[0])
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 28 + len(payload), 0, 0x4000, 64, UDP, 0) + ends
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + udp + payload


class Nat:
    def __init__(self, device, address):
        self.address = address
        self.tun = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(self.tun, TUNSETIFF, struct.pack("16sH", device.encode(), IFF_TUN | IFF_NO_PI))
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.tun, selectors.EVENT_READ)
        self.ports = {}  # by owner: a socket, and where it was used for
        self.forgets = False
        signal.signal(signal.SIGUSR1, self.on_signal)

    def on_signal(self, *_):
        self.forgets = True

    def run(self):
        while True:
            for key, _ in self.selector.select(0.05):
                if self.forgets:
                    break
                if key.fileobj == self.tun:
                    self.leave(os.read(self.tun, 65536))
                else:
                    self.arrive(key.fileobj, key.data)
            if self.forgets:
                self.forget()

    def forget(self):
        self.forgets = False
        for port, _ in self.ports.values():
            self.selector.unregister(port)
            port.close()
        self.ports.clear()

    def leave(self, ip):
        if len(ip) < 28 or ip[0] != 0x45 or ip[9] != UDP:
            return
        source_port, destination_port = struct.unpack("!HH", ip[20:24])
        owner = (socket.inet_ntoa(ip[12:16]), source_port)
        to = (socket.inet_ntoa(ip[16:20]), destination_port)
        if owner not in self.ports:
            port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            port.setblocking(False)
            port.bind((self.address, 0))
            self.ports[owner] = (port, set())
            self.selector.register(port, selectors.EVENT_READ, owner)
        port, used_for = self.ports[owner]
        used_for.add(to)
        try:
            port.sendto(ip[28:], to)
        except OSError:
            pass  # it is lost

    def arrive(self, port, owner):
        try:
            payload, sender = port.recvfrom(65536)
            if sender in self.ports[owner][1]:
                os.write(self.tun, packet(sender, owner, payload))
        except OSError:
            pass


if __name__ == "__main__":
    Nat(sys.argv[1], sys.argv[2]).run()
