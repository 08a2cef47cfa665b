"""Network namespaces as hosts, for the tests of this folder: each has an address on a bridge that joins them."""

import os
import pathlib
import socket
import subprocess

FIRST_NETWORK = "10.77.0."
AF_XDP = 44


def do(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more)


def missing_namespaces():
    """Why there are no network namespaces here; empty: there are."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"braid-probe-{os.getpid()}"
    try:
        probe = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "ip is not installed"
    if probe.returncode != 0:
        return f"no network namespace: {probe.stderr.strip()}"
    do("ip", "netns", "delete", name)
    return ""


def missing_xdp():
    """Why there are no AF_XDP sockets here; empty: there are."""
    try:
        socket.socket(AF_XDP, socket.SOCK_RAW).close()
    except OSError as refused:
        return f"no AF_XDP sockets: {refused.strerror}"
    return ""


def hide(folder):
    """A line of sh that makes this folder an empty one, for a process that Network.start() starts."""
    return f"mount -t tmpfs hidden '{folder}'; " if folder else ""


class Network:
    """`hosts` namespaces with the addresses 10.77.0.1 and so on, and `command`, 10.77.0.100, where the command runs."""

    def __init__(self, hosts):
        self.prefix = f"braid-{os.getpid()}"
        self.bridge = f"{self.prefix}-bridge"
        self.started = []
        do("ip", "netns", "add", self.bridge)
        self.add_bridge("bridge0")
        self.command = self.add("command", self.address(100))
        self.hosts = [self.add(f"host{i}", self.address(i)) for i in range(1, hosts + 1)]

    @staticmethod
    def address(i):
        return f"{FIRST_NETWORK}{i}"

    def inside(self, namespace, *words):
        return do("ip", "netns", "exec", namespace, *words)

    def add(self, name, address):
        namespace = f"{self.prefix}-{name}"
        do("ip", "netns", "add", namespace)
        self.inside(namespace, "ip", "link", "set", "lo", "up")
        self.add_interface(namespace, name, "eth0", address)
        return namespace

    def add_bridge(self, name):
        self.inside(self.bridge, "ip", "link", "add", name, "type", "bridge")
        self.inside(self.bridge, "ip", "link", "set", name, "up")

    def add_interface(self, namespace, name, interface, address, bridge="bridge0"):
        """`name`: of its other end, at the bridge."""
        outer = f"b{os.getpid() % 100000}-{name}"[:15]
        do("ip", "link", "add", outer, "netns", self.bridge, "type", "veth", "peer", "name", interface, "netns", namespace)
        self.inside(self.bridge, "ip", "link", "set", outer, "master", bridge, "up")
        self.inside(namespace, "ip", "address", "add", f"{address}/24", "dev", interface)
        self.inside(namespace, "ip", "link", "set", interface, "up")

    def start(self, namespace, *words, **more):
        """Starts a process that runs until remove()."""
        self.started.append(subprocess.Popen(["ip", "netns", "exec", namespace, *words], stdin=subprocess.DEVNULL, **more))

    def processes(self, namespace):
        return [int(pid) for pid in do("ip", "netns", "pids", namespace).stdout.split()]

    def runs_in(self, namespace, program):
        found = []
        for pid in self.processes(namespace):
            try:
                if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == program:
                    found.append(pid)
            except OSError:
                pass  # it has ended
        return found

    def kill(self, namespace, program=None):
        for pid in self.processes(namespace) if program is None else self.runs_in(namespace, program):
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass

    def left(self, *programs):
        """What still runs of these on any host."""
        return [(host, name) for host in self.hosts for name in programs if self.runs_in(host, name)]

    def remove(self):
        for namespace in [*self.hosts, self.command, self.bridge]:
            self.kill(namespace)
        for process in self.started:
            process.wait()
        for namespace in [*self.hosts, self.command, self.bridge]:
            do("ip", "netns", "delete", namespace)
