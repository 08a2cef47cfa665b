#!/usr/bin/env python3
"""What cannot be written is an error that names the file, the cause and the cure, and has status 73: full disks, limits
of file sizes, pipes without a reader.

    output_files_test.py BIN [unittest arguments]
"""

import json
import os
import pathlib
import resource
import struct
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1])
CANNOT_CREATE = 73
FULL = "No space left on device: make room on that file system, or name another"
SIMULATED = ["sim", "--quiet", "--clusters", "2", "--compute", "1", "--proxies", "1"]
REAL = ["run", "--quiet", "--clusters", "2", "--compute", "1", "--proxies", "1"]
JACOBI = ["jacobi", "--size", "64", "--iterations", "2"]
STUDY = """applications:
  - {application: jacobi, arguments: [--size, 64, --iterations, 2]}
base: {clusters: 2, compute: 1, proxies: 1}
"""


def braid(*words, stdout=subprocess.PIPE, before=None, inherited=()):
    return subprocess.run([BIN / "braid", *words], stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=120,
                          preexec_fn=before, pass_fds=inherited, check=False)


def on_small_disk(folder, kibibytes, command):
    """Runs a shell command while a file system of that size is mounted at `folder`, seen by this command only."""
    mount = f"mount -t tmpfs -o size={kibibytes}k braid-test {folder} && cd {folder} && {command}"
    return subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount], capture_output=True,
                          text=True, timeout=120, check=False)


def may_mount():
    with tempfile.TemporaryDirectory() as folder:
        return on_small_disk(folder, 100, "true").returncode == 0


def blocks(capture):
    """The types of a pcapng file's blocks; the last one ends where the file does."""
    types = []
    at = 0
    while at < len(capture):
        kind, length = struct.unpack_from("<II", capture, at)
        assert struct.unpack_from("<I", capture, at + length - 4)[0] == length
        types.append(kind)
        at += length
    assert at == len(capture)
    return types


class OutputFiles(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def assert_refused(self, run, *texts):
        self.assertEqual(run.returncode, CANNOT_CREATE, run.stderr)
        for text in texts:
            self.assertIn(text, run.stderr)

    def test_a_report_on_a_full_device(self):
        for words in (SIMULATED, REAL):
            with self.subTest(command=words[0]):
                run = braid(*words, "--report", "/dev/full", *JACOBI)
                self.assert_refused(run, f"braid: --report: /dev/full cannot be written: {FULL}")
                self.assertIn("verified", run.stdout)

    def test_a_trace_on_a_full_device_costs_neither_the_run_nor_its_report(self):
        report = self.folder / "report.json"
        run = braid(*SIMULATED, "--trace", "/dev/full", "--report", report, *JACOBI)
        self.assert_refused(run, f"braid: --trace: /dev/full cannot be written: {FULL}")
        self.assertIn("verified", run.stdout)
        self.assertEqual(json.loads(report.read_text())["status"], 0)

    def test_a_trace_into_a_pipe_without_a_reader(self):
        reader, writer = os.pipe()
        os.close(reader)
        run = braid(*SIMULATED, "--trace", f"/dev/fd/{writer}", *JACOBI, inherited=(writer,))
        os.close(writer)
        self.assert_refused(run, f"/dev/fd/{writer} cannot be written: Broken pipe")
        self.assertIn("verified", run.stdout)

    def test_a_trace_that_cannot_be_made_is_refused_before_the_run(self):
        run = braid(*SIMULATED, "--trace", "/nonexistent/trace", *JACOBI)
        self.assert_refused(run, "--trace: /nonexistent/trace cannot be written: No such file or directory: name a folder")
        self.assertEqual(run.stdout, "")

    def test_a_complete_trace_has_status_0(self):
        trace = self.folder / "trace"
        run = braid(*SIMULATED, "--trace", trace, *JACOBI)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertGreater(len([json.loads(line) for line in trace.read_text().splitlines()]), 10)

    def test_a_capture_on_a_full_device(self):
        # The name that cluster 1's daemon will open.
        (self.folder / "cluster1-proxy0.pcapng").symlink_to("/dev/full")
        run = braid(*REAL, "--capture", self.folder, *JACOBI)
        self.assert_refused(run, f"cluster1-proxy0.pcapng cannot be written: {FULL}", "it lacks", "frames",
                            "a capture or the key log is incomplete: braidd of cluster 1")
        self.assertNotIn("cluster0", run.stderr)
        self.assertIn("verified", run.stdout)

    def test_a_failed_program_has_its_own_status_whatever_its_capture_lacks(self):
        (self.folder / "cluster1-proxy0.pcapng").symlink_to("/dev/full")
        run = braid(*REAL, "--capture", self.folder, "jacobi", "--size", "0")
        self.assertNotIn(run.returncode, (0, CANNOT_CREATE))

    def test_a_capture_at_its_limit_says_so_and_has_status_0(self):
        settings = self.folder / "run.yaml"
        settings.write_text(f"capture: {{directory: {self.folder}, limit_mib: 1}}\n")
        run = braid(*REAL, "--config", settings, "jacobi", "--size", "1024", "--iterations", "2")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("has reached its limit of 1 MiB (capture.limit_mib); later frames are missing from it", run.stderr)

    @unittest.skipUnless(may_mount(), "needs user namespaces")
    def test_a_capture_on_a_disk_that_becomes_full(self):
        words = " ".join([*REAL, "--capture", ".", "jacobi", "--size", "256", "--iterations", "12"])
        run = on_small_disk(self.folder, 600, f"{BIN}/braid {words}; status=$?; "
                            f"cat cluster0-proxy0.pcapng | od -An -v -tx1; exit $status")
        self.assert_refused(run, FULL, "a capture or the key log is incomplete")
        bytes_of_file = bytes.fromhex("".join(line for line in run.stdout.splitlines() if line.startswith(" ")))
        self.assertGreater(len(blocks(bytes_of_file)), 2)

    @unittest.skipUnless(may_mount(), "needs user namespaces")
    def test_a_trace_on_a_disk_that_becomes_full(self):
        words = " ".join([*SIMULATED, "--trace", "trace", "jacobi", "--size", "256", "--iterations", "100"])
        run = on_small_disk(self.folder, 8, f"{BIN}/braid {words}")
        self.assert_refused(run, f"braid: --trace: trace cannot be written: {FULL}", "the simulation goes on")

    @unittest.skipUnless(may_mount(), "needs user namespaces")
    def test_a_study_on_a_full_disk(self):
        (self.folder.parent / f"{self.folder.name}.yaml").write_text(STUDY)
        study = self.folder.parent / f"{self.folder.name}.yaml"
        self.addCleanup(study.unlink)
        run = on_small_disk(self.folder, 40, f"head -c 1M /dev/zero > filler; {BIN}/braid study {study} -o results")
        self.assert_refused(run, "cannot be", "No space left on device")

    def test_standard_output_on_a_full_device(self):
        (self.folder / "study.yaml").write_text(STUDY)
        for words in ([], ["--version"], ["--help"], ["help", "run"], ["help", "defaults"], ["run", "--help"],
                      ["sim", "--idle-message", "0:100:50"], ["study", self.folder / "study.yaml", "--list"]):
            with self.subTest(words=words), open("/dev/full", "w", encoding="ascii") as full:
                self.assert_refused(braid(*words, stdout=full), f"braid: standard output cannot be written: {FULL}")

    def test_standard_output_over_the_limit_of_file_sizes(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

        with open(self.folder / "settings", "w", encoding="ascii") as file:
            run = braid("help", "settings", stdout=file, before=limit)
        self.assert_refused(run, "standard output cannot be written: File too large: raise the limit of file sizes")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
