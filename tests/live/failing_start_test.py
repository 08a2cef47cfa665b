#!/usr/bin/env python3
"""A run that the system gives too little of something ends with the reason and a documented status, whatever it was:
limits of memory, processes and file sizes, and each single allocation, descriptor, mapping, thread and process that
the project's own code asks for at its start.

    failing_start_test.py BIN [unittest arguments]

BRAID_FAIL_ALL=1: all of them up to the 2,000th; else all that are few, and some allocations, by BRAID_FAIL_SEED.
"""

import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1])
ALL = os.environ.get("BRAID_FAIL_ALL") == "1"
SEED = int(os.environ.get("BRAID_FAIL_SEED", "1"))
FIRST_OF_ALL, FEW = 2000, 40
RUN = [BIN / "braid", "run", "--quiet", "--clusters", "2", "--compute", "2", "--proxies", "1"]
PROGRAM = BIN / "start_program"
DOCUMENTED = {0, 1, 64, 70, 73, 78}
NEVER = ("terminate called", "CHECK failed", "Assertion", "Segmentation", "core dumped", "AddressSanitizer")


def run(words, environment=None, before=None):
    return subprocess.run(words, capture_output=True, text=True, timeout=60, env={**os.environ, **(environment or {})},
                          preexec_fn=before, check=False)


class FailingStart(unittest.TestCase):
    def assert_explained(self, done, where):
        text = f"{where}: status {done.returncode}\n{done.stdout}{done.stderr}"
        self.assertIn(done.returncode, DOCUMENTED, text)
        for word in NEVER:
            self.assertNotIn(word, done.stderr, text)
        if done.returncode != 0:
            self.assertIn("braid", done.stderr, text)

    def fail_nth(self, process, kind, n, options=()):
        """True: there is an n-th of that kind in that process."""
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "log")
            done = run([*RUN, *options, PROGRAM],
                       {"LD_PRELOAD": str(BIN / "libbraid_failing_calls.so"), "FAILING_CALL": f"{kind}:{n}",
                        "FAILING_CALL_IN": process, "FAILING_CALL_LOG": str(log)})
            self.assert_explained(done, f"{kind} {n} of {process}")
            happened = log.exists()
            if not happened:
                self.assertEqual(done.returncode, 0, done.stderr)
            return happened

    def fail_each(self, process, kind, numbers, options=()):
        failed = 0
        for n in numbers:
            with self.subTest(process=process, kind=kind, n=n):
                if not self.fail_nth(process, kind, n, options):
                    break
                failed += 1
        return failed

    def test_descriptors_mappings_threads_and_processes(self):
        for process, kinds in {"braid": ("descriptor", "mapping", "process"), "braidd": ("descriptor", "mapping", "thread"),
                               "start_program": ("descriptor", "mapping", "thread")}.items():
            for kind in kinds:
                most = FIRST_OF_ALL if ALL else FEW
                self.assertGreater(self.fail_each(process, kind, range(1, most + 1)), 0, f"{kind} of {process}")

    # DPDK's own calls are among these; it goes on without some files of the system.
    def test_calls_of_dpdk(self):
        for kind in ("descriptor", "mapping", "thread", "malloc"):
            numbers = range(1, (FIRST_OF_ALL if ALL else 4) + 1)
            self.assertGreater(self.fail_each("braidd", kind, numbers, ("--wire", "dpdk")), 0, kind)

    def test_allocations(self):
        for process in ("braid", "braidd", "start_program"):
            self.fail_each(process, "allocation", range(1, FIRST_OF_ALL + 1) if ALL else range(1, 6))
            for n in sorted(random.Random(SEED).sample(range(6, FIRST_OF_ALL), 8)):
                with self.subTest(process=process, n=n):
                    self.fail_nth(process, "allocation", n)

    def test_limits(self):
        for name, which, values in (("file sizes", resource.RLIMIT_FSIZE, (0, 4096, 1 << 20)),
                                    ("memory", resource.RLIMIT_AS, (150 << 20, 200 << 20, 300 << 20, 500 << 20)),
                                    ("open files", resource.RLIMIT_NOFILE, (4, 8, 12, 16, 20, 24))):
            for value in values:
                with self.subTest(limit=name, value=value):
                    done = run([*RUN, PROGRAM], before=lambda w=which, v=value: resource.setrlimit(w, (v, v)))
                    if done.returncode == 127:
                        continue  # the program could not even be loaded
                    self.assert_explained(done, f"limit {value} of {name}")

    def test_file_size_limit_is_named_with_its_cure(self):
        done = run([*RUN, PROGRAM], before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        self.assertEqual(done.returncode, 70, done.stderr)
        self.assertIn("File too large: raise the limit of file sizes (ulimit -f), which also holds for shared memory",
                      done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
