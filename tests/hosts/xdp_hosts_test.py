#!/usr/bin/env python3
"""`braid run --hosts --wire af_xdp`: see interface_hosts.py.

    xdp_hosts_test.py BIN [unittest's options]

Needs root, ip (iproute2), ethtool, ssh and sshd; exit status 77 where they are missing.
"""

import shutil
import subprocess
import sys
import unittest

import interface_hosts
from interface_hosts import HOSTS
from network import missing_xdp
from runs import finish
from ssh_network import missing

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""


class XdpHosts(interface_hosts.InterfaceHosts):
    binaries = BIN
    wire = "af_xdp"

    def programs(self):
        """On how many hosts an interface has an XDP program."""
        return sum("prog/xdp" in self.network.inside(host, "ip", "link", "show").stdout for host in self.network.hosts)

    def endless(self, *options):
        run = super().endless(*options)
        self.assertEqual(self.programs(), HOSTS)
        return run

    def expect_nothing_left(self):
        super().expect_nothing_left()
        self.assertEqual(self.programs(), 0, "a program is left at an interface")

    def test_packets_in_the_queue_of_another_proxy_are_handed_over(self):
        for host in self.network.hosts:
            try:
                self.network.inside(host, "ethtool", "-L", "eth0", "rx", "2", "tx", "2")
            except subprocess.CalledProcessError as refused:
                self.skipTest(f"no veth of two queues: {refused.stderr}")
        proxies = self.expect_verified("--proxies", "2", self.braid.application("jacobi"), "--size", "256")
        # A bridge sends by one queue, so all packets come by the first.
        for first, second in zip(proxies[::2], proxies[1::2]):
            self.assertGreater(first["misdirected"], 0)
            self.assertGreater(second["packets_received"], 0)
        self.expect_nothing_left()

    def test_a_killed_daemon_leaves_no_program(self):
        run = self.endless()
        self.network.kill(self.network.hosts[1], "braidd")
        _, err = finish(run)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("node2", err)
        self.expect_nothing_left()
        again = self.braid.run(*self.names, "--quiet", self.braid.application("jacobi"), "--size", "64", "--iterations", "1")
        self.assertEqual(again.returncode, 0, again.stderr)

    def test_refusals(self):
        self.common_refusals()
        self.assertIn("--wire af_xdp: node1 has 2 clusters, and an interface serves one; give --per-host 1, or take af_packet or udp",
                      self.refusal(*self.names, "--per-host", "2"))
        self.assertIn("9000 is too long for wire af_xdp", self.refusal(*self.names, "--mtu", "9000"))
        self.network.inside(self.network.hosts[2], "ethtool", "-L", "eth0", "rx", "1", "tx", "1")
        self.assertIn("eth0 has one queue and 2 proxies need one each", self.refusal(*self.names, "--proxies", "2"))


if __name__ == "__main__":
    reason = missing() or missing_xdp() or ("" if shutil.which("ethtool") else "ethtool is not installed")
    if reason:
        print(f"skipped: {reason}")
        sys.exit(77)
    unittest.main()
