#!/usr/bin/env python3
"""Sealed packets, from outside: the wire of a run carries no byte of its program unless security is off; a run's secret is in nothing
that others can look at; a node with another secret, none, or a secret that others can read is named.

    security_test.py BIN [unittest's options]

The hosts are addresses of the loopback network. What is looked at are captures (`--capture`): what daemons give to the kernel and get
from it. ssh_hosts_test.py looks at a bridge instead.
"""

import base64
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

from runs import CommandTest, copies_in_memory, finish, node_between, script, wait_until

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
TWO = "127.0.0.1,127.0.0.2"
MARKER = b"only-for-the-members-of-this-run"
# CBOR's "secret", and a string of 32 bytes.
SECRET_KEY = rb"fsecretX\x20"
# The node of cluster 1 is told of another secret than it was sent.
OTHER_SECRET = f"""if b'\\n  "cluster": 1,' in begin:
    begin, changes = re.subn(rb"({SECRET_KEY.decode()}).{{32}}", lambda found: found[1] + b"x" * 32, begin, flags=re.DOTALL)
    assert changes == 1
"""


class SecurityTest(CommandTest):
    binaries = BIN


class OnTheWire(SecurityTest):
    def captured(self, *options):
        """What crossed the links of a run of the marker program; its messages; its report."""
        frames, report = self.folder / "frames", self.folder / "report.json"
        run = self.braid.run(*options, "--capture", str(frames), "--report", str(report), "--compute", "1", "--mtu", "9000",
                             self.braid.application("marker_program"))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("verified", run.stdout)
        seen = b"".join(file.read_bytes() for file in sorted(frames.iterdir()))
        self.assertGreater(len(seen), 2048 * len(MARKER))
        return seen, run.stderr, json.loads(report.read_text())

    def test_wires_that_leave_the_host_are_sealed_unless_security_is_off(self):
        for options, is_plain in ((("--hosts", TWO), False), (("--hosts", TWO, "--security", "auto"), False),
                                  (("--wire", "udp"), False), (("--wire", "shm"), True),
                                  (("--wire", "shm", "--security", "required"), False),
                                  (("--wire", "udp", "--security", "off"), True),
                                  (("--hosts", TWO, "--security", "off"), True)):
            with self.subTest(options):
                seen, said, report = self.captured(*options)
                self.assertEqual(MARKER in seen, is_plain)
                self.assertEqual("security is off: packets between hosts are neither encrypted" in said,
                                 "off" in options and "--hosts" in options)
                self.assertEqual(report["security"] == ["plain"], is_plain, report["security"])
                self.assertIn("plain" if is_plain else "sealed with ", said)


class KeyLog(SecurityTest):
    """`--keylog` and `braid decrypt`: who has the keys of a run reads its captures, and nobody else."""

    def sealed_run(self, name, *options):
        """The captures of a run of the marker program; what it said."""
        frames, keys = self.folder / f"{name}-frames", self.folder / f"{name}-keys"
        run = self.braid.run(*options, "--capture", str(frames), "--keylog", str(keys), "--compute", "1", "--mtu", "9000",
                             self.braid.application("marker_program"))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("verified", run.stdout)
        return sorted(frames.iterdir()), run.stderr

    def decrypt(self, capture, keys):
        plain = self.folder / "plain"
        plain.unlink(missing_ok=True)
        done = subprocess.run([f"{BIN}/braid", "decrypt", str(capture), "--keylog", str(keys), "-o", str(plain)],
                              capture_output=True, text=True, check=False, timeout=60)
        return done, plain

    def test_captures_are_opened_with_the_keys_of_their_run(self):
        for name, options in (("shm", ("--wire", "shm", "--security", "required")), ("udp", ("--wire", "udp")),
                              ("hosts", ("--hosts", TWO))):
            with self.subTest(name):
                captures, said = self.sealed_run(name, *options)
                keys = self.folder / f"{name}-keys"
                place = f"{keys}.cluster<k> on its hosts" if name == "hosts" else str(keys)
                self.assertIn(f"the keys of this run are in {place}: who has them can read", said)
                opened = b""
                for cluster, capture in enumerate(captures):
                    # Of several hosts, a node's keys open the captures of that node.
                    file = pathlib.Path(f"{keys}.cluster{cluster}") if name == "hosts" else keys
                    self.assertEqual(file.stat().st_mode & 0o7777, 0o600)
                    self.assertNotIn(MARKER, capture.read_bytes())
                    done, plain = self.decrypt(capture, file)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertRegex(done.stderr, r"\Abraid: opened (\d{2,}) of \1 sealed packets\n\Z")
                    self.assertEqual(plain.stat().st_mode & 0o7777, 0o600)
                    self.assertEqual(plain.stat().st_size, capture.stat().st_size)
                    opened += plain.read_bytes()
                self.assertGreater(opened.count(MARKER), 2048)
        # Keys of another run.
        capture = self.folder / "udp-frames" / "cluster0-proxy0.pcapng"
        done, plain = self.decrypt(capture, self.folder / "shm-keys")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"braid: opened 0 of (\d+) sealed packets; \1 without a key\n.*they are of another run")
        self.assertEqual(plain.read_bytes(), capture.read_bytes())

    def test_a_file_that_cannot_hold_keys_is_refused_before_anything_starts(self):
        keys = self.folder / "keys"
        keys.touch(mode=0o600)
        keys.chmod(0o644)
        for options, status, text in (
                (("--wire", "udp", "--keylog", str(keys)), 73, f"braid: --keylog: {keys}: others than its owner may use it (its mode is 644)"),
                (("--wire", "udp", "--keylog", "/no/such/keys"), 73, "--keylog: /no/such/keys cannot be written: No such file"),
                (("--wire", "shm", "--keylog", str(keys)), 64, "--keylog: no packet of this run is sealed"),
                (("--wire", "udp", "--security", "off", "--keylog", str(keys)), 64, "no packet of this run is sealed")):
            with self.subTest(options):
                run = self.braid.run(*options, "true")
                self.assertEqual(run.returncode, status, run.stderr)
                self.assertIn(text, run.stderr)
        self.assertEqual(keys.read_text(), "")
        of_a_host = pathlib.Path(f"{keys}.cluster1")
        of_a_host.touch()
        of_a_host.chmod(0o604)
        run = self.braid.run("--quiet", "--hosts", TWO, "--keylog", str(keys), "true")
        self.assertEqual(run.returncode, 70, run.stderr)
        self.assertIn(f"security.keylog: {of_a_host}: others than its owner may use it", run.stderr)

    def test_decrypt_names_what_it_cannot_read_or_write(self):
        keys = self.folder / "keys"
        keys.write_text(f"BRAID_AES_256_GCM {'1' * 16} {'2' * 16} 0 {'3' * 64}\n")
        capture = self.folder / "capture"
        capture.write_bytes(b"no capture")
        link = self.folder / "link"
        link.symlink_to(capture)

        def expect(status, text, *words):
            done = subprocess.run([f"{BIN}/braid", "decrypt", *map(str, words)], capture_output=True, text=True, check=False,
                                  timeout=60)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(text, done.stderr)

        expect(64, "name the file of keys with --keylog", capture, "-o", "x")
        expect(64, "name the file to write", capture, "--keylog", keys)
        expect(64, "it is the capture itself", capture, "--keylog", keys, "-o", link)
        expect(64, "it is the file of keys", capture, "--keylog", keys, "-o", keys)
        expect(73, "No such file or directory", capture, "--keylog", keys, "-o", self.folder / "none" / "x")
        expect(78, "it is no pcapng file", capture, "--keylog", keys, "-o", self.folder / "x")
        expect(78, "it is a folder", self.folder, "--keylog", keys, "-o", self.folder / "x")
        expect(78, "none: cannot be read", self.folder / "none", "--keylog", keys, "-o", self.folder / "x")
        expect(78, "none of its lines is a key", capture, "--keylog", capture, "-o", self.folder / "x")
        self.assertEqual(capture.read_bytes(), b"no capture")


class TheSecret(SecurityTest):
    """Where it is looked for, and a run that is looked at while it goes."""

    def forms(self, secret):
        return {"raw": secret, "hex": secret.hex().encode(), "HEX": secret.hex().upper().encode(),
                "base64": base64.b64encode(secret)[:-4], "list": ",".join(map(str, secret)).encode()}

    def expect_none(self, where, text, secret):
        for form, bytes in self.forms(secret).items():
            self.assertNotIn(bytes, text, f"{form} of the secret in {where}")

    def listening_node(self):
        return node_between(self.folder / "node", BIN, f'open("{self.folder}/told" + str(os.getpid()), "wb").write(begin)')

    def told(self):
        """The secret that a run's braid-nodes were told; None: nothing yet."""
        found = [re.search(SECRET_KEY + rb"(.{32})", file.read_bytes(), re.DOTALL) for file in self.folder.glob("told*")]
        return {match[1] for match in found if match} if len(found) == 2 and all(found) else None

    @staticmethod
    def name(pid):
        """Of a process; nothing: it has ended."""
        try:
            return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            return ""

    def family(self, pid):
        """A process and all that come from it."""
        parents = {}
        for folder in pathlib.Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    parents.setdefault(int((folder / "stat").read_text().rpartition(")")[2].split()[1]), []).append(int(folder.name))
                except OSError:
                    pass
        found = [pid]
        for one in found:
            found += parents.get(one, [])
        return found

    def test_it_is_in_nothing_that_others_can_look_at(self):
        node = self.listening_node()
        program = script(self.folder / "program", f"touch {self.folder}/ran-$BRAID_CLUSTER; sleep 3700\n")
        run = self.braid.start("--hosts", TWO, "--braid-node", node, "--report", str(self.folder / "report"), program)
        self.addCleanup(run.kill)
        self.assertTrue(wait_until(lambda: len(list(self.folder.glob("ran-*"))) == 2), "it did not start")
        # Between its two words a program has no process but its shell.
        self.assertTrue(wait_until(lambda: [self.name(pid) for pid in self.family(run.pid)].count("sleep") == 2), "no sleep")
        secrets = self.told()
        self.assertEqual(len(secrets), 1, "the nodes of one run have one secret")
        secret = secrets.pop()
        self.assertGreater(len(set(secret)), 8, "it is random")
        names = set()
        for pid in self.family(run.pid):
            folder = pathlib.Path(f"/proc/{pid}")
            try:
                name = (folder / "comm").read_text().strip()
                for what in ("cmdline", "environ"):
                    self.expect_none(f"{what} of {name}", (folder / what).read_bytes(), secret)
                for file in (folder / "fd").iterdir():
                    # The daemons' configurations among them. A pipe would be drained.
                    if "memfd:" in os.readlink(file):
                        with open(file, "rb") as opened:
                            self.expect_none(f"a file in memory of {name}", opened.read(1 << 20), secret)
            except (FileNotFoundError, ProcessLookupError):
                continue
            names.add(name)
        self.assertTrue({"braid", "braidd", "sleep"} <= names, names)
        run.terminate()
        out, err = finish(run)
        self.expect_none("the output", out.encode() + err.encode(), secret)
        self.expect_none("the report", (self.folder / "report").read_bytes(), secret)
        # Another run has another one.
        for file in self.folder.glob("told*"):
            file.unlink()
        self.assertEqual(self.braid.run("--quiet", "--hosts", TWO, "--braid-node", node, "true").returncode, 0)
        self.assertNotEqual(self.told(), {secret})

    def test_only_daemons_keep_it_in_memory(self):
        node = self.listening_node()
        # Of hosts in a chain the first passes on what the second is told.
        relay = script(self.folder / "relay", f'[ $# -eq 0 ] && exec {node}\nexec {BIN}/braid-node "$@"\n')
        ssh = script(self.folder / "ssh", 'while [ $# -gt 1 ]; do shift; done; exec sh -c "$1"\n')
        for options in ((), ("--launcher", "ssh", "--ssh", ssh, "--ssh-fan-out", "1")):
            with self.subTest(options):
                program = script(self.folder / "program", f"touch {self.folder}/ran-$BRAID_CLUSTER; sleep 3700\n")
                run = self.braid.start("--hosts", TWO, "--braid-node", relay, *options, program)
                self.addCleanup(run.kill)
                self.assertTrue(wait_until(lambda: len(list(self.folder.glob("ran-*"))) == 2), "it did not start")
                secret = self.told().pop()
                copies = []
                for pid in self.family(run.pid):
                    try:
                        copies.append((self.name(pid), copies_in_memory(pid, secret)))
                    except PermissionError as problem:
                        self.skipTest(str(problem))
                    except (FileNotFoundError, ProcessLookupError):
                        continue  # it has ended
                self.assertEqual([pair for pair in copies if pair[1] and pair[0] != "python3"], 2 * [("braidd", 1)])
                expected = {"braid", "braid-node", "braid-keeper", "python3"}
                self.assertTrue(expected <= {pair[0] for pair in copies}, copies)
                run.terminate()
                finish(run)
                for file in [*self.folder.glob("told*"), *self.folder.glob("ran-*")]:
                    file.unlink()

    def test_there_is_none_where_security_is_off(self):
        node = self.listening_node()
        run = self.braid.run("--quiet", "--hosts", TWO, "--braid-node", node, "--security", "off", "true")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(list(self.folder.glob("told*"))), 2)
        self.assertIsNone(self.told())

    def test_a_node_with_another_one_is_named(self):
        node = node_between(self.folder / "node", BIN, OTHER_SECRET)
        # On a busy machine the nodes may not have met after 3 s.
        for seconds in (3, 30):
            begun = time.monotonic()
            run = self.braid.run("--quiet", "--hosts", TWO, "--braid-node", node, "--start-timeout", str(1000 * seconds), "true")
            self.assertLess(time.monotonic() - begun, seconds + 12)
            self.assertEqual(run.returncode, 70, run.stderr)
            self.assertIn("is not connected to all others", run.stderr)
            if "another secret" in run.stderr:
                return
        self.fail(run.stderr)


class ByHand(SecurityTest):
    """Daemons that a user starts, with configurations in files."""

    PORT = 20000 + os.getpid() % 10000

    def start(self, cluster, **security):
        """A braidd of two, and what it says when it is connected."""
        ready, told = os.pipe()
        self.addCleanup(os.close, ready)
        config = {"cluster": cluster, "clusters": 2, "address": f"127.7.0.{cluster + 1}", "udp_port": self.PORT,
                  "listen_address": f"@security-test-{os.getpid()}-{cluster}", "links": [{"kind": "udp"}], "ready_fd": told,
                  "transport": {"mtu_bytes": 1500},
                  "peers": [{"cluster": 1 - cluster, "address": f"127.7.0.{2 - cluster}", "udp_port": self.PORT}],
                  "security": security}
        file = self.folder / f"node{cluster}.json"
        file.write_text(json.dumps(config))
        daemon = subprocess.Popen([f"{BIN}/braidd", "--config", str(file)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, pass_fds=[told])
        os.close(told)
        os.set_blocking(ready, False)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        return daemon, ready

    @staticmethod
    def is_ready(ready):
        try:
            return os.read(ready, 1) != b""
        except BlockingIOError:
            return False

    def end(self, daemon):
        daemon.terminate()
        return daemon.communicate(timeout=20)[1]

    def secret(self, name):
        path = self.folder / name
        made = subprocess.run([f"{BIN}/braid", "secret", str(path)], capture_output=True, text=True, check=False)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertNotIn(path.read_text().strip(), made.stdout + made.stderr)
        return str(path)

    def refusal(self, **security):
        daemon, _ = self.start(0, **security)
        said = daemon.communicate(timeout=20)[1]
        self.assertNotEqual(daemon.returncode, 0)
        return said

    def test_braid_secret_makes_a_file_that_only_its_user_reads_and_never_replaces_one(self):
        path = pathlib.Path(self.secret("one"))
        self.assertEqual(path.stat().st_mode & 0o7777, 0o600)
        self.assertRegex(path.read_text(), r"\A[0-9a-f]{64}\n\Z")
        before = path.read_text()
        again = subprocess.run([f"{BIN}/braid", "secret", str(path)], capture_output=True, text=True, check=False)
        self.assertEqual(again.returncode, 73)
        self.assertIn("it exists", again.stderr)
        self.assertEqual(path.read_text(), before)
        nowhere = subprocess.run([f"{BIN}/braid", "secret", "/no/such/folder/secret"], capture_output=True, text=True, check=False)
        self.assertEqual(nowhere.returncode, 73)
        self.assertIn("/no/such/folder/secret", nowhere.stderr)
        self.assertNotEqual(pathlib.Path(self.secret("two")).read_text(), before)

    def test_nodes_with_one_secret_connect(self):
        secret = self.secret("secret")
        (one, ready), (other, other_ready) = self.start(0, secret_file=secret), self.start(1, secret_file=secret)
        self.assertTrue(wait_until(lambda: self.is_ready(ready)), "not connected")
        self.assertTrue(wait_until(lambda: self.is_ready(other_ready)), "not connected")
        for daemon in (one, other):
            self.assertNotIn("secret", self.end(daemon))

    def test_a_node_that_logs_its_keys_says_so(self):
        secret, keys = self.secret("secret"), self.folder / "keys"
        (one, ready), (other, _) = self.start(0, secret_file=secret, keylog=str(keys)), self.start(1, secret_file=secret)
        self.assertTrue(wait_until(lambda: self.is_ready(ready)), "not connected")
        self.assertIn(f"security.keylog: who has {keys} can read all that this node sends and receives", self.end(one))
        self.assertNotIn("keylog", self.end(other))
        self.assertEqual(keys.stat().st_mode & 0o7777, 0o600)
        lines = keys.read_text().splitlines()
        self.assertGreaterEqual(len(lines), 2, "one for each direction")
        for line in lines:
            self.assertRegex(line, r"\ABRAID_(AES_256_GCM|CHACHA20_POLY1305) [0-9a-f]{16} [0-9a-f]{16} 0 [0-9a-f]{64}\Z")

    def expect_refusal_of_each_other(self, first, second, words):
        (one, ready), (other, other_ready) = self.start(0, **first), self.start(1, **second)
        time.sleep(2)
        self.assertFalse(self.is_ready(ready) or self.is_ready(other_ready))
        said = self.end(one) + self.end(other)
        for text in words:
            self.assertIn(text, said)
        # Named, and not with each packet.
        self.assertLess(len(said.splitlines()), 12, said)

    def test_nodes_with_different_secrets_name_the_cause(self):
        self.expect_refusal_of_each_other({"secret_file": self.secret("one")}, {"secret_file": self.secret("other")},
                                          ["another secret"])

    def test_a_node_without_a_secret_names_the_cause(self):
        self.expect_refusal_of_each_other({"secret_file": self.secret("one")}, {"mode": "off"}, ["sealed"])

    def test_a_sealed_wire_without_a_secret_does_not_start(self):
        said = self.refusal()
        for text in ("security.secret_file", "links[0] (udp)", "braid secret FILE", "security.mode to off"):
            self.assertIn(text, said)

    def test_a_file_that_others_can_read_is_refused(self):
        path = pathlib.Path(self.secret("secret"))
        path.chmod(0o640)
        self.assertIn(f"{path}: others than its owner may use it (its mode is 640)", self.refusal(secret_file=str(path)))
        self.assertIn("it is a folder", self.refusal(secret_file=str(self.folder)))
        self.assertIn("No such file or directory", self.refusal(secret_file=str(self.folder / "none")))


if __name__ == "__main__":
    unittest.main()
