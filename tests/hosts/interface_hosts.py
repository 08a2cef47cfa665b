"""`braid run --hosts` with a wire at interfaces that keep the kernel's address: what each such wire must do. Four network namespaces joined by a bridge are the
hosts, with an sshd in each, whose traffic goes over the same interfaces."""

import json

from network import do
from runs import PROGRAMS, finish, wait_until
from ssh_network import SshHostsTest

HOSTS = 4
# The heartbeat between hosts outlives this on the wire's link.
OUTAGE_SECONDS = 2


class InterfaceHosts(SshHostsTest):
    count = HOSTS
    wire = ""

    def setUp(self):
        super().setUp()
        self.names += ["--bind", "none", "--compute", "1", "--wire", self.wire]

    def refusal(self, *arguments):
        run = self.braid.run(*arguments, self.braid.application("jacobi"), "--size", "64", "--iterations", "1")
        self.assertNotEqual(run.returncode, 0, run.stdout)
        return run.stderr

    def expect_verified(self, *arguments):
        """Returns the counters of all proxies."""
        report = self.folder / "report.json"
        run = self.braid.run(*self.names, "--report", str(report), *arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("verified", run.stdout)
        self.assertIn(f"wire {self.wire}", run.stderr)
        self.assertIn("packets sealed", run.stderr)
        return [proxy for cluster in json.loads(report.read_text())["clusters"] for proxy in cluster["proxies"]]

    def test_programs_are_verified_and_sealed(self):
        for program, *arguments in PROGRAMS:
            with self.subTest(program):
                self.expect_verified(self.braid.application(program), *arguments)
        self.expect_verified("--loss", "0.01", "--delay", "2", self.braid.application("jacobi"), "--size", "128", "--iterations", "3")
        self.expect_nothing_left()

    def test_the_kernel_keeps_its_traffic_and_outages_are_outlived(self):
        run = self.endless()
        host = self.network.hosts[0]
        self.network.inside(host, "ping", "-c", "2", "-i", "0.2", "-W", "5", self.network.address(2))
        shell = do("ip", "netns", "exec", self.network.command, *self.network.ssh.split(), "node1", "echo", "here").stdout
        self.assertEqual(shell, "here\n")
        self.expect_outlived(run, "eth0", OUTAGE_SECONDS)

    def expect_outlived(self, run, interface, seconds):
        host = self.network.hosts[0]
        packets = lambda: int(self.network.inside(host, "cat", f"/sys/class/net/{interface}/statistics/rx_packets").stdout)
        # The program has begun: what joins it waits for less.
        self.assertTrue(wait_until(lambda: packets() > 1000), "the run does not begin")
        self.network.inside(host, "ip", "link", "set", interface, "down")
        if wait_until(lambda: not self.network.runs_in(host, "jacobi"), seconds):
            self.fail(f"it has ended: {finish(run)[1]}")
        self.network.inside(host, "ip", "link", "set", interface, "up")
        before = packets()
        self.assertTrue(wait_until(lambda: packets() > before + 1000), "the run does not go on")
        run.terminate()
        finish(run)
        self.assertEqual(run.returncode, 128 + 15)
        self.expect_nothing_left()

    def common_refusals(self):
        self.assertIn(f"--wire {self.wire}: is for --hosts or --hostfile, and neither is given; on one host take shm or udp",
                      self.refusal("--wire", self.wire))
        self.assertIn(f"--wire {self.wire}: the hosts have addresses of the loopback network, which is no Ethernet; take udp",
                      self.refusal("--hosts", "127.0.0.1,127.0.0.2", "--wire", self.wire))
        self.assertIn("--fragmentation: ip is not possible at an interface that keeps the kernel's address",
                      self.refusal(*self.names, "--fragmentation", "ip"))
        self.assertIn("takes packets of 1500", self.refusal(*self.names, "--mtu", "2000"))
