#!/usr/bin/env python3
"""What a process inherits over exec: signal dispositions and masks, closed descriptors, umask and limits. Every command
and a program alone are started in each of the states below and must do what they do otherwise.

    inherited_test.py BIN [unittest arguments]
"""

import json
import os
import pathlib
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

BIN = pathlib.Path(sys.argv[1])
SMALL = ["--size", "64", "--iterations", "3"]
ENDLESS = ["--size", "128", "--iterations", "1000000"]
LIMIT_S = 60


def each_signal():
    return set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}


def ignore(signals):
    for number in signals:
        signal.signal(number, signal.SIG_IGN)


def close(*descriptors):
    for descriptor in descriptors:
        os.close(descriptor)


# Run in the process that becomes the command.
STATES = {
    "SIGCHLD ignored": lambda: ignore({signal.SIGCHLD}),
    "every signal ignored": lambda: ignore(each_signal()),
    "every signal blocked": lambda: signal.pthread_sigmask(signal.SIG_BLOCK, each_signal()),
    "descriptor 0 closed": lambda: close(0),
    "descriptor 1 closed": lambda: close(1),
    "descriptor 2 closed": lambda: close(2),
    "descriptors 0 to 2 closed": lambda: close(0, 1, 2),
    "umask 0777": lambda: os.umask(0o777),
    "umask 0": lambda: os.umask(0),
    "few open files": lambda: resource.setrlimit(resource.RLIMIT_NOFILE,
                                                 (12, resource.getrlimit(resource.RLIMIT_NOFILE)[1])),
    "no core dumps": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
}


def limit(which, most):
    return lambda: resource.setrlimit(which, (most, most))


# Limits with which nothing runs, and what the message must name. (With 16 KiB of stack, or 1000 KiB of data, the kernel starts no program.)
TOO_LOW = {
    "no bytes in files": (limit(resource.RLIMIT_FSIZE, 0), "ulimit -f"),
    "a stack of 64 KiB": (limit(resource.RLIMIT_STACK, 64 << 10), "ulimit -s"),
    "8 open files": (limit(resource.RLIMIT_NOFILE, 8), "ulimit -n"),
    "20 open files": (limit(resource.RLIMIT_NOFILE, 20), "ulimit -n"),
    "100 MiB of addresses": (limit(resource.RLIMIT_AS, 100 << 20), "ulimit -v"),
}
WAYS = {"here": [], "on hosts": ["--hosts", "127.0.0.1,127.0.0.2"]}


def can_mount():
    return os.geteuid() == 0 and subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"],
                                                stderr=subprocess.DEVNULL, check=False).returncode == 0


def start(state, *words, **options):
    return subprocess.Popen([str(word) for word in words], preexec_fn=STATES.get(state, state), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def finish(process):
    """(status, output, errors); a process that does not end is killed and fails the test."""
    try:
        output, errors = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired as late:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(f"it does not end\n{output}\n{errors}") from late
    return process.returncode, output, errors


def wait_for(condition):
    limit = time.monotonic() + LIMIT_S
    while not condition():
        if time.monotonic() > limit:
            raise AssertionError("it does not happen")
        time.sleep(0.01)


def ends_within(process, seconds):
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


class Inherited(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_run(self):
        report = self.folder / "run.json"
        for state in STATES:
            with self.subTest(state):
                status, _, errors = finish(start(state, BIN / "braid", "run", "--report", report, "jacobi", *SMALL))
                self.assertEqual(status, 0, errors)
                self.assertEqual(json.loads(report.read_text())["clusters"][1]["application"]["end"], "exited with status 0")
                self.assertEqual(report.stat().st_mode & 0o600, 0o600)
                report.unlink()

    def test_run_on_hosts(self):
        for state in STATES:
            with self.subTest(state):
                status, _, errors = finish(start(state, BIN / "braid", "run", *WAYS["on hosts"], "--quiet", "jacobi", *SMALL))
                self.assertEqual(status, 0, errors)

    def test_limits_that_are_too_low_are_named_with_the_cure(self):
        for state, (lower, cure) in TOO_LOW.items():
            for way, options in WAYS.items():
                with self.subTest(state, way=way):
                    status, output, errors = finish(start(lower, BIN / "braid", "run", *options, "--quiet", "jacobi", *SMALL))
                    self.assertGreater(status, 0, f"{output}{errors}")
                    self.assertIn(cure, errors)
                    self.assertNotIn("Segmentation", errors)

    def test_a_stack_that_may_grow_grows(self):
        def lower():
            resource.setrlimit(resource.RLIMIT_STACK, (64 << 10, resource.getrlimit(resource.RLIMIT_STACK)[1]))
        for way, options in WAYS.items():
            with self.subTest(way):
                status, _, errors = finish(start(lower, BIN / "braid", "run", *options, "--quiet", "jacobi", *SMALL))
                self.assertEqual(status, 0, errors)

    def test_no_folder_for_temporary_files_is_needed(self):
        for way, options in WAYS.items():
            with self.subTest(way):
                status, _, errors = finish(start(lambda: None, BIN / "braid", "run", *options, "--quiet", "jacobi", *SMALL,
                                                 env=dict(os.environ, TMPDIR="/nonexistent")))
                self.assertEqual(status, 0, errors)

    @unittest.skipUnless(can_mount(), "only root may mount, and not in every container")
    def test_folders_in_memory_that_are_full_or_read_only_are_not_needed(self):
        for how in ("ro", "size=4k"):
            for way, options in WAYS.items():
                with self.subTest(how, way=way):
                    words = " ".join(["exec", str(BIN / "braid"), "run", *options, "--quiet", "jacobi", *SMALL])
                    script = (f"for at in /dev/shm /mnt; do mount -t tmpfs -o {how} none $at; "
                              f"head -c 32768 /dev/zero 2>/dev/null >$at/full; done; export TMPDIR=/mnt; {words}")
                    status, _, errors = finish(start(lambda: None, "unshare", "-m", "sh", "-c", script))
                    self.assertEqual(status, 0, errors)

    @unittest.skipUnless((BIN / "sim" / "jacobi").exists(), "no simulator")
    def test_sim(self):
        report = self.folder / "sim.json"
        for state in STATES:
            with self.subTest(state):
                status, _, errors = finish(start(state, BIN / "braid", "sim", "--report", report, "jacobi", *SMALL))
                self.assertEqual(status, 0, errors)
                self.assertGreater(json.loads(report.read_text())["parallel_cycles"], 0)
                report.unlink()

    @unittest.skipUnless((BIN / "sim" / "jacobi").exists(), "no simulator")
    def test_study(self):
        study = self.folder / "study.yaml"
        study.write_text("applications:\n  - {application: jacobi, arguments: [--size, 64, --iterations, 3]}\n"
                         "vary:\n  - clusters: [1, 2]\n")
        for number, state in enumerate(STATES):
            with self.subTest(state):
                output = self.folder / f"study{number}"
                status, _, errors = finish(start(state, BIN / "braid", "study", study, "-o", output))
                self.assertEqual(status, 0, errors)
                self.assertEqual(len(list((output / "points").glob("*.json"))), 2)

    def test_braidd_and_counters(self):
        config = self.folder / "node.json"
        socket = self.folder / "braidd"
        config.write_text(json.dumps({"cluster": 0, "clusters": 1, "proxies": 1, "address": "10.0.0.1",
                                      "listen_address": str(socket)}))
        for state in STATES:
            with self.subTest(state):
                daemon = start(state, BIN / "braidd", "--config", config)
                try:
                    wait_for(lambda: socket.exists() or daemon.poll() is not None)
                    status, _, errors = finish(start(state, BIN / "braid", "counters", "--service", socket))
                    self.assertEqual(status, 0, errors)
                    self.assertEqual(socket.stat().st_mode & 0o700, 0o700)
                    descriptors = [os.readlink(f"/proc/{daemon.pid}/fd/{n}") for n in range(3)]
                    self.assertTrue(all(d == "/dev/null" or d.startswith("pipe:") for d in descriptors), descriptors)
                finally:
                    daemon.terminate()
                    self.assertEqual(finish(daemon)[0], 0)

    def test_program_alone(self):
        for state in STATES:
            with self.subTest(state):
                program = start(state, BIN / "jacobi", *ENDLESS)
                try:
                    wait_for(lambda: "/memfd:" in pathlib.Path(f"/proc/{program.pid}/maps").read_text())
                    descriptors = self.descriptors_of(program.pid)[:3]
                    self.assertTrue(all(d == "/dev/null" or d.startswith("pipe:") for d in descriptors), descriptors)
                finally:
                    program.kill()
                    finish(program)
                self.assertEqual(finish(start(state, BIN / "jacobi", *SMALL))[0], 0)

    @staticmethod
    def descriptors_of(pid):
        folder = pathlib.Path(f"/proc/{pid}/fd")
        links = []
        for number in sorted(int(entry.name) for entry in folder.iterdir()):
            try:
                links.append(os.readlink(folder / str(number)))
            except FileNotFoundError:
                pass
        return links

    def endless(self, ignored):
        """An endless run with these signals ignored, once both programs have joined the machine: they handle SIGQUIT."""
        run = start(lambda: ignore(ignored), BIN / "braid", "run", "--quiet", "jacobi", *ENDLESS)
        self.addCleanup(lambda: (run.kill(), run.communicate()))
        wait_for(lambda: self.programs_with_handler(run.pid, "jacobi", signal.SIGQUIT) == 2)
        return run

    @staticmethod
    def programs_with_handler(pid, name, number):
        """How many of the process's children run this program and handle this signal."""
        count = 0
        for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            try:
                words = pathlib.Path(f"/proc/{child}/cmdline").read_text()
                caught = re.search(r"^SigCgt:\s*(\w+)$", pathlib.Path(f"/proc/{child}/status").read_text(), re.MULTILINE)
            except (FileNotFoundError, ProcessLookupError):
                continue
            if name in words and "run\0" not in words and int(caught[1], 16) & 1 << number - 1:
                count += 1
        return count

    def test_signals_that_the_parent_ignores_do_not_end_a_run(self):
        for number in (signal.SIGHUP, signal.SIGINT):
            with self.subTest(number):
                run = self.endless({number})
                run.send_signal(number)
                self.assertFalse(ends_within(run, 5), "nohup, and shells for what runs in the background, ignore it")
                run.send_signal(signal.SIGTERM)
                self.assertEqual(finish(run)[0], 128 + signal.SIGTERM)

    def test_programs_report_at_sigquit_though_a_shell_runs_them_in_the_background(self):
        run = self.endless({signal.SIGINT, signal.SIGQUIT})
        run.send_signal(signal.SIGQUIT)
        errors = ""

        def all_reported():
            nonlocal errors
            if select.select([run.stderr], [], [], 0)[0]:
                errors += os.read(run.stderr.fileno(), 65536).decode()
            return all(f"compute node {node} " in errors for node in range(4))

        wait_for(all_reported)
        run.terminate()
        finish(run)

    def test_braidd_in_the_background_of_a_shell_outlives_control_c(self):
        config = self.folder / "node.json"
        socket = self.folder / "braidd"
        config.write_text(json.dumps({"cluster": 0, "clusters": 1, "proxies": 1, "address": "10.0.0.1",
                                      "listen_address": str(socket)}))
        daemon = start(lambda: ignore({signal.SIGINT}), BIN / "braidd", "--config", config)
        self.addCleanup(lambda: (daemon.kill(), daemon.communicate()))
        wait_for(lambda: socket.exists() or daemon.poll() is not None)
        daemon.send_signal(signal.SIGINT)
        self.assertFalse(ends_within(daemon, 1))
        daemon.terminate()
        self.assertEqual(finish(daemon)[0], 0)

    def test_braidd_outlives_the_reader_of_its_log(self):
        config = self.folder / "node.json"
        socket = self.folder / "braidd"
        config.write_text(json.dumps({"cluster": 0, "clusters": 1, "proxies": 1, "address": "10.0.0.1",
                                      "listen_address": str(socket)}))
        daemon = start(lambda: None, BIN / "braidd", "--config", config)
        self.addCleanup(lambda: (daemon.kill(), daemon.wait()))
        wait_for(lambda: socket.exists() or daemon.poll() is not None)
        status = pathlib.Path(f"/proc/{daemon.pid}/status").read_text()
        ignored = int(status.split("SigIgn:")[1].split()[0], 16)
        self.assertTrue(ignored >> (signal.SIGPIPE - 1) & 1)
        daemon.stdout.close()
        daemon.stderr.close()
        daemon.terminate()
        self.assertEqual(daemon.wait(), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
