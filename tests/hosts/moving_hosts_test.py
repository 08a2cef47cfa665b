#!/usr/bin/env python3
"""`braid run --hosts --wire udp` where hosts get another address, or are behind a NAT that gives them other ports, while a program runs. The hosts are network
namespaces with an sshd, as in ssh_hosts_test.py; ssh has addresses of its own, which stay.

    moving_hosts_test.py BIN [unittest's options]

Needs root, for the namespaces, ip (iproute2), ssh and sshd, and for the NAT /dev/net/tun; exit status 77 where they are missing.
"""

import json
import os
import pathlib
import signal
import sys
import time
import unittest

from network import do
from runs import finish, wait_until
from ssh_network import SshHostsTest, missing

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
HOSTS = 4
MOVER = HOSTS - 1  # the number of its cluster
NAT = pathlib.Path(__file__).with_name("nat.py")


def address(i):
    return f"10.78.0.{i}"


class MovingHosts(SshHostsTest):
    binaries = BIN
    count = HOSTS

    def setUp(self):
        super().setUp()
        self.report = self.folder / "report.json"
        self.addresses = [address(i) for i in range(1, HOSTS + 1)]

    def name_addresses(self):
        (self.folder / "hosts").write_text(
            "".join(f"- {{host: node{i}, addresses: [{a}]}}\n" for i, a in enumerate(self.addresses, 1)))

    def add_address(self, host, a):
        self.network.inside(host, "ip", "address", "add", f"{a}/24", "dev", "eth0")

    def start(self, *options):
        """A program that runs for some seconds, when it has begun."""
        self.name_addresses()
        run = self.braid.start(*self.names, "--wire", "udp", "--bind", "none", "--report", str(self.report), *options, "--compute", "1",
                               self.braid.application("jacobi"), "--size", "256", "--iterations", "800")
        self.addCleanup(run.kill)
        self.assertTrue(wait_until(lambda: all(self.network.runs_in(host, "jacobi") for host in self.network.hosts)),
                        "it did not start")
        time.sleep(0.2)
        return run

    def expect_verified(self, run):
        """The run's messages, and the counters of each cluster's proxies, added up."""
        out, err = finish(run)
        self.assertEqual(run.returncode, 0, err)
        self.assertIn("verified", out)
        sums = []
        for cluster in json.loads(self.report.read_text())["clusters"]:
            names = cluster["proxies"][0]
            sums.append({name: sum(proxy[name] for proxy in cluster["proxies"]) for name in names if isinstance(names[name], int)})
            handshakes = [sums[-1][f"handshakes_{cipher}"] for cipher in ("aes_gcm", "chacha20", "plain")]
            self.assertEqual((sum(handshakes), handshakes[-1]), (HOSTS - 1, 0), f"connections did not last: {err}")
        return err, sums

    def test_a_host_gets_another_address(self):
        for i, host in enumerate(self.network.hosts):
            self.add_address(host, self.addresses[i])
        run = self.start()
        host, other = self.network.hosts[MOVER], address(44)
        self.network.inside(host, "ip", "address", "del", f"{self.addresses[MOVER]}/24", "dev", "eth0")
        time.sleep(0.2)  # without any
        self.add_address(host, other)
        err, counters = self.expect_verified(run)
        self.assertEqual(counters[MOVER]["address_changes"], 1, err)
        for cluster in range(HOSTS):
            self.assertEqual(counters[cluster]["address_moves"], 0 if cluster == MOVER else 1, err)
        self.assertRegex(err, rf"cluster {MOVER} proxy 0 was at {self.addresses[MOVER]}:\d+ and is at {other}:\d+ now")

    def add_nat(self):
        """The last host is behind it, with 10.79.0.4; it is 10.78.0.50."""
        host, outside, inside = self.network.hosts[MOVER], address(50), "10.79.0.4"
        nat = self.network.add("nat", self.network.address(50))
        self.addCleanup(lambda: (self.network.kill(nat), do("ip", "netns", "delete", nat)))
        self.add_address(nat, outside)
        do("ip", "link", "add", "inner", "netns", nat, "type", "veth", "peer", "name", "inner", "netns", host)
        for namespace, a in ((nat, "10.79.0.254"), (host, inside)):
            self.network.inside(namespace, "ip", "address", "add", f"{a}/24", "dev", "inner")
            self.network.inside(namespace, "ip", "link", "set", "inner", "up")
        self.network.inside(host, "ip", "route", "add", "10.78.0.0/24", "via", "10.79.0.254")
        for i, other in enumerate(self.network.hosts[:MOVER]):
            self.add_address(other, self.addresses[i])
            self.network.inside(other, "ip", "route", "add", "10.79.0.0/24", "via", outside)
        self.network.start(nat, sys.executable, str(NAT), "tun0", outside)
        self.assertTrue(wait_until(lambda: "tun0" in self.network.inside(nat, "ip", "link").stdout), "there is no tun device")
        self.network.inside(nat, "sh", "-c", "for i in all default inner tun0; do echo 0 > /proc/sys/net/ipv4/conf/$i/rp_filter; done; "
                            "echo 1 > /proc/sys/net/ipv4/ip_forward")
        for words in (("link", "set", "tun0", "up"), ("route", "add", "default", "dev", "tun0", "table", "100"),
                      ("rule", "add", "iif", "inner", "lookup", "100"),
                      # What comes from outside for a host behind it is dropped.
                      ("route", "add", "blackhole", "default", "table", "101"), ("rule", "add", "iif", "eth0", "lookup", "101")):
            self.network.inside(nat, "ip", *words)
        self.addresses[MOVER] = inside
        return nat, outside

    def test_a_host_behind_a_nat_gets_other_ports(self):
        if not os.path.exists("/dev/net/tun"):
            self.skipTest("there is no /dev/net/tun")
        nat, outside = self.add_nat()
        run = self.start()
        (forwarder,) = [pid for pid in self.network.processes(nat) if str(NAT) in pathlib.Path(f"/proc/{pid}/cmdline").read_text()]
        os.kill(forwarder, signal.SIGUSR1)
        err, counters = self.expect_verified(run)
        for cluster in range(HOSTS):
            self.assertEqual(counters[cluster]["address_moves"], 0 if cluster == MOVER else 1, err)
        self.assertRegex(err, rf"cluster {MOVER} proxy 0 was at {self.addresses[MOVER]}:\d+ and is at {outside}:\d+ now")
        self.assertRegex(err, rf"cluster {MOVER} proxy 0 was at {outside}:\d+ and is at {outside}:\d+ now")


if __name__ == "__main__":
    if reason := missing():
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
