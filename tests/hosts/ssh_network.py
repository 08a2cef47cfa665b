"""The OpenSSH client and server for the tests of this folder: an sshd in a network namespace for each host."""

import pathlib
import shutil
import time
import unittest

from network import Network, do, hide, missing_namespaces
from runs import MOST_SECONDS_TO_END, Command, finish, make_folder, wait_until

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/bin")


def missing():
    """Why the test cannot run; empty: it can."""
    for name, path in (("ssh", shutil.which("ssh")), ("sshd", SSHD)):
        if not path:
            return f"{name} is not installed"
    return missing_namespaces()


class SshNetwork(Network):
    """With an sshd on each host, which is named node1 and so on, and the configuration of an ssh that knows them as node1 and so on. `hidden`: a folder that the last
    host does not see."""

    def __init__(self, folder, hosts, hidden=None):
        super().__init__(hosts)
        self.folder = folder
        self.ssh = f"ssh -F {folder}/ssh_config"
        for name in ("host_key", "user_key"):
            do("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / name))
        # Shells read no start-up file of root's: what is there may be slow, or wait for what a killed one holds.
        (self.folder / "sshd_config").write_text(
            f"HostKey {self.folder}/host_key\nAuthorizedKeysFile {self.folder}/user_key.pub\nStrictModes no\n"
            f"SetEnv HOME={self.folder}\nUsePAM no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nPidFile none\n")
        nodes = range(1, hosts + 1)
        entries = "".join(f"Host node{i}\n  HostName {self.address(i)}\n" for i in nodes)
        (self.folder / "ssh_config").write_text(
            f"{entries}Host *\n  User root\n  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n"
            f"  StrictHostKeyChecking no\n  UserKnownHostsFile {self.folder}/known_hosts\n  LogLevel ERROR\n")
        (self.folder / "hosts").write_text(
            "".join(f"- {{host: node{i}, addresses: [{self.address(i)}]}}\n" for i in nodes))
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        for i, host in enumerate(self.hosts, 1):
            hides = hide(hidden if host == self.hosts[-1] else None)
            self.start(host, "unshare", "--uts", "sh", "-c", f'{hides}hostname node{i}; exec "$@"', "sh", SSHD, "-D", "-E", str(self.folder / "sshd.log"), "-f",
                       str(self.folder / "sshd_config"))
            if not wait_until(lambda: ":22 " in self.inside(host, "ss", "-ltn").stdout):
                raise AssertionError(f"sshd did not start: {(self.folder / 'sshd.log').read_text()}")


class SshHostsTest(unittest.TestCase):
    """Each test has a network of its own, in which `self.braid` is run; `self.names` are the options that name its hosts."""

    binaries = ""  # the folder of braid
    count = 0  # of hosts
    of_runs = ("jacobi", "braidd", "braid-node")  # processes that none may leave

    def setUp(self):
        self.folder = make_folder(self.addCleanup)
        self.network = SshNetwork(self.folder, self.count)
        self.addCleanup(self.network.remove)
        self.braid = Command(self.binaries, ["ip", "netns", "exec", self.network.command])
        self.names = ["--hostfile", str(self.folder / "hosts"), "--ssh", self.network.ssh]

    def endless(self, *options):
        """A program that takes an hour on all hosts, when it runs."""
        run = self.braid.start(*self.names, "--quiet", *options, self.braid.application("jacobi"), "--size", "256", "--iterations", "1000000")
        self.addCleanup(run.kill)
        self.assertTrue(wait_until(lambda: all(self.network.runs_in(host, "jacobi") for host in self.network.hosts)),
                        "it did not start")
        return run

    def expect_end(self, run, status, *words):
        begun = time.monotonic()
        _, err = finish(run)
        self.assertLess(time.monotonic() - begun, MOST_SECONDS_TO_END, err)
        self.assertEqual(run.returncode, status, err)
        for text in words:
            self.assertIn(text, err)
        self.expect_nothing_left()

    def expect_nothing_left(self):
        left = lambda: self.network.left(*self.of_runs)
        self.assertTrue(wait_until(lambda: not left(), MOST_SECONDS_TO_END), f"left: {left()}")
