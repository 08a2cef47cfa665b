#!/usr/bin/env python3
"""`braid doctor`: on this host, on addresses of the loopback network, and on namespaces with an sshd each, for root: what it finds
there, and that it names what was made wrong on purpose.

    doctor_test.py BIN [unittest's options]
"""

import json
import os
import pathlib
import subprocess
import sys
import time
import unittest

from runs import make_folder, script
from ssh_network import SshHostsTest, missing

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
HOSTS = 4
MOST_SECONDS = 60


def doctor(*words, before=(), expect=0):
    run = subprocess.run([*before, f"{BIN}/braid", "doctor", *map(str, words)], capture_output=True, text=True,
                         stdin=subprocess.DEVNULL, timeout=MOST_SECONDS, check=False)
    if run.returncode != expect:
        raise AssertionError(f"{words}: status {run.returncode}\n{run.stdout}\n{run.stderr}")
    return run.stdout + run.stderr


class ThisHost(unittest.TestCase):
    def test_this_host(self):
        said = doctor()
        self.assertTrue(said.startswith("this host\n"), said)
        for what in ("braidd: is there", "processors: ", "memory: ", "open files: ", "locked memory: ", "page protection: "):
            self.assertIn(what, said)

    def test_encryption_is_that_of_the_run(self):
        self.assertIn("encryption: packets are plain", doctor())
        self.assertIn("encryption: packets are sealed, with ", doctor("--wire", "udp"))
        self.assertIn("encryption: packets are sealed, with ", doctor("--security", "required"))
        self.assertIn("encryption: packets are plain", doctor("--wire", "udp", "--security", "off"))

    def test_threads_are_those_of_the_run(self):
        self.assertIn(", for 40 threads", doctor("--clusters", 2, "--compute", 16, "--proxies", 4))


class LittleMemory(unittest.TestCase):
    """In a cgroup of version 1 or 2 that the test makes."""

    def setUp(self):
        version_1 = os.path.exists("/sys/fs/cgroup/memory")
        self.group = pathlib.Path("/sys/fs/cgroup", "memory" if version_1 else "", f"braid-test-{os.getpid()}")
        try:
            self.group.mkdir()
        except OSError as problem:
            self.skipTest(f"no cgroup can be made: {problem}")
        self.addCleanup(self.group.rmdir)
        self.limit = self.group / ("memory.limit_in_bytes" if version_1 else "memory.max")
        if not self.limit.exists():
            self.skipTest("cgroups here do not limit memory")
        if not version_1:
            (self.group / "memory.swap.max").write_text("0")

    def braid(self, mib, *words):
        """(status, what it says) with so much memory."""
        self.limit.write_text(str(mib << 20))
        run = subprocess.run(["sh", "-c", 'echo $$ >"$0" && exec "$@"', self.group / "cgroup.procs", f"{BIN}/braid", *map(str, words)],
                             capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=MOST_SECONDS, check=False)
        return run.returncode, run.stdout + run.stderr

    def test_what_does_not_fit_is_said(self):
        status, said = self.braid(48, "doctor")
        self.assertEqual(status, 1, said)
        self.assertRegex(said, "  bad      memory: 4[0-9] MiB of the 48 MiB that the cgroup permits, for 2 clusters")
        status, said = self.braid(256, "doctor")
        self.assertEqual(status, 0, said)
        self.assertIn("  warning  memory: ", said)
        self.assertIn("memory.limit_in_bytes", said)
        status, said = self.braid(256, "doctor", "127.0.0.2", "127.0.0.3", "--heap-mib", 16)
        self.assertEqual(status, 0, said)
        self.assertEqual(said.count("  ok       memory: "), 2, said)
        self.assertIn(" of the 48 MiB that the cgroup permits, for 2 clusters", self.braid(48, "run", "--show-plan", "jacobi")[1])

    def test_a_run_that_is_killed_for_want_of_memory_says_so(self):
        for hosts in ((), ("--hosts", "127.0.0.2,127.0.0.3")):
            with self.subTest(hosts):
                status, said = self.braid(40, "run", *hosts, "jacobi", "--size", 256)
                self.assertNotEqual(status, 0, said)
                self.assertIn("memory: ", said)
                self.assertIn("which take 64 MiB before the program has any", said)
                self.assertRegex(said, r"\(Killed\).*: the kernel killed it because there was no memory left of the 40 MiB that the "
                                       "cgroup permits; ")


class Loopback(unittest.TestCase):
    def setUp(self):
        self.folder = make_folder(self.addCleanup)

    def node(self, text):
        """A braid-node of the test's own."""
        return "--braid-node", script(self.folder / "braid-node", text)

    def test_hosts_and_the_ways_between_them(self):
        said = doctor("127.0.0.2:2", "127.0.0.3", "127.0.0.4", "--compute", 2, "--proxies", 1)
        self.assertIn("127.0.0.2\n  ok       version: ", said)
        self.assertIn(", for 6 threads", said)
        self.assertIn(", for 3 threads", said)
        self.assertEqual(said.count("  ok       clock: "), 3, said)
        self.assertEqual(said.count("  ok       encryption: packets are sealed, with "), 3, said)
        self.assertIn("  ok       UDP on 6 ways: packets of up to 9000 bytes arrive", said)
        self.assertEqual(said, said.replace("bad ", ""))

    def test_one_host_has_no_ways_between(self):
        said = doctor("127.0.0.2")
        self.assertIn("127.0.0.2\n  ok       version: ", said)
        self.assertNotIn("between hosts", said)

    def test_the_host_file_is_that_of_runs(self):
        (self.folder / "hosts").write_text("- {host: 127.0.0.2, addresses: [127.0.1.1, 127.0.1.2]}\n"
                                           "- {host: 127.0.0.3, addresses: [127.0.1.3, 127.0.1.4]}\n")
        self.assertIn("UDP on 4 ways", doctor("--hostfile", self.folder / "hosts"))

    def test_wrong_uses(self):
        for words, text in ((("127.0.0.2", "127.0.0.3", "--hosts", "127.0.0.4"), "name them in one way"),
                            (("--launcher", "ssh"), "none is given"), (("127.0.0.2:0",), "'0' slots"),
                            (("127.0.0.2", "10.0.0.1"), "loopback")):
            with self.subTest(words):
                self.assertIn(text, doctor(*words, expect=64))

    def test_hosts_that_do_not_answer_are_named(self):
        for text, found in (("exit 3", "exited with status 3"), ("echo welcome >&2; kill -9 $$", "killed by signal 9"),
                            ("echo 'braid-doctor {'", "is no message"), ("echo 'braid-doctor {}'", "is no answer"),
                            ("exec true", "exited with status 0")):
            with self.subTest(text):
                said = doctor("127.0.0.2", "127.0.0.3", *self.node(text), expect=1)
                self.assertEqual(said.count("  bad      connection: "), 2, said)
                self.assertIn(found, said)
                self.assertEqual(said.count(f"try it by hand: {self.folder}/braid-node --doctor\n"), 2, said)
        self.assertIn("welcome", doctor("127.0.0.2", "127.0.0.3", *self.node("echo welcome >&2; exit 1"), expect=1))

    def test_another_version_is_named(self):
        said = json.dumps({"version": "0.0.9", "findings": [], "ports": {}, "refused": {"127.0.0.2": "x", "127.0.0.3": "x"}})
        found = doctor("127.0.0.2", "127.0.0.3", *self.node(f"echo 'welcome'; echo 'braid-doctor {said}'; cat >/dev/null"),
                       expect=1)
        self.assertIn("  bad      version: 0.0.9, and ", found)
        self.assertIn("install the same version on every host", found)

    def test_what_is_no_message_ends_a_braid_node(self):
        for text in ("nonsense\n", "{}\n", '{"threads": 1, "is_sealed": true, "addresses": ["no address"]}\n',
                     '{"threads": 1, "is_sealed": true, "addresses": []}\n{"probes": [3]}\n'):
            with self.subTest(text):
                run = subprocess.run([f"{BIN}/braid-node", "--doctor"], input=text, capture_output=True, text=True,
                                     timeout=MOST_SECONDS, check=False)
                self.assertEqual(run.returncode, 64, run.stderr)
                self.assertIn("is no message of braid doctor", run.stderr)


@unittest.skipIf(missing(), missing())
class Ssh(SshHostsTest):
    binaries = BIN
    count = HOSTS

    def doctor(self, *words, expect=0, hosts="hosts"):
        return doctor("--hostfile", self.folder / hosts, "--ssh", f"ssh -F {self.folder}/ssh_config", *words,
                      before=("ip", "netns", "exec", self.network.command), expect=expect)

    def test_what_is_wrong_on_the_way_is_named(self):
        self.assertIn("UDP on 12 ways: packets of up to 1500 bytes arrive", self.doctor())
        self.assertIn("--mtu 1500: runs would send packets of 9000", self.doctor("--mtu", 9000, expect=1))
        # One link takes shorter packets than the others.
        self.network.inside(self.network.hosts[1], "ip", "link", "set", "eth0", "mtu", "1400")
        said = self.doctor(expect=1)
        self.assertIn("  bad      UDP from node2 to node1: packets of up to 1400 bytes arrive", said)
        self.assertIn("--mtu 1400: runs would send packets of 1500", said)
        self.assertIn("UDP on 6 ways: packets of up to 1500 bytes arrive", said)
        self.assertIn("packets of up to 1400 bytes arrive", self.doctor("--mtu", 1400))
        # Addresses beside those of ssh, of which one swallows what is sent to it: its station is said to be another.
        for i, host in enumerate(self.network.hosts, 1):
            self.network.inside(host, "ip", "address", "add", f"10.78.0.{i}/24", "dev", "eth0")
        (self.folder / "others").write_text("".join(f"- {{host: node{i}, addresses: [10.78.0.{i}]}}\n" for i in (1, 3, 4)))
        self.network.inside(self.network.hosts[0], "ip", "neighbour", "replace", "10.78.0.3", "lladdr", "02:00:00:00:00:99", "dev",
                            "eth0")
        said = self.doctor(hosts="others", expect=1)
        self.assertIn("  bad      UDP from node1 to node3: nothing arrives", said)
        self.assertIn("open UDP between the hosts in firewalls", said)
        self.assertIn("UDP on 5 ways", said)
        # An address that no host has, and a way without a route.
        (self.folder / "none").write_text("- {host: node1, addresses: [10.79.0.1]}\n- {host: node3, addresses: [10.78.0.3]}\n")
        said = self.doctor(hosts="none", expect=1)
        self.assertIn("  bad      address 10.79.0.1: ", said)
        self.network.inside(self.network.hosts[0], "ip", "address", "add", "10.80.0.1/32", "dev", "eth0")
        (self.folder / "far").write_text("- {host: node1, addresses: [10.78.0.1]}\n- {host: node3, addresses: [10.81.0.3]}\n")
        self.network.inside(self.network.hosts[2], "ip", "address", "add", "10.81.0.3/32", "dev", "eth0")
        said = self.doctor(hosts="far", expect=1)
        self.assertIn("  bad      UDP from node1 to node3: cannot be sent: ", said)

    def test_a_host_that_is_down_does_not_stop_the_others(self):
        self.network.kill(self.network.hosts[3])
        begun = time.monotonic()
        said = self.doctor(expect=1)
        self.assertLess(time.monotonic() - begun, 30)
        self.assertIn("node4\n  bad      connection: ssh exited with status 255", said)
        self.assertIn("UDP on 6 ways", said)


if __name__ == "__main__":
    unittest.main()
