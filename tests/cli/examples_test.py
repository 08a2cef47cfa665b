#!/usr/bin/env python3
"""The programs of examples/ run as their comments say, as this build has them, and as braid-c++ makes them.

    examples_test.py BIN SOURCES [unittest arguments]
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1]).resolve()
SOURCES = pathlib.Path(sys.argv[2]).resolve()
ECHOES = ['cluster 1 echoes "hello, cluster 1": right', 'cluster 2 echoes "hello, cluster 2": right']
PRIMES = "78498 primes: right"


def run(*words, expect=0):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != expect:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def run_on_clusters(clusters, program):
    return run(BIN / "braid", "run", "--clusters", clusters, "--compute", 2, "--proxies", 2, program).stdout


class Examples(unittest.TestCase):
    def assert_echoes(self, program):
        lines = [line.removeprefix("[c0] ") for line in run_on_clusters(3, program).splitlines()]
        self.assertEqual(lines, ECHOES)

    def test_echo_sends_to_every_other_cluster(self):
        self.assert_echoes(BIN / "examples/echo")

    def test_echo_prints_how_to_start_it(self):
        self.assertIn("start it with braid run", run(BIN / "examples/echo", expect=2).stderr)

    def test_primes_are_counted_alone_and_on_clusters(self):
        self.assertEqual(run(BIN / "examples/primes").stdout, PRIMES + "\n")
        self.assertIn(PRIMES, run_on_clusters(2, BIN / "examples/primes"))

    def test_the_compiler_for_programs_builds_them(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("echo", "primes"):
                run(BIN / "braid-c++", "-O2", "-Wall", "-Wextra", "-Werror", SOURCES / f"{name}.cpp", "-o", f"{folder}/{name}")
            self.assert_echoes(f"{folder}/echo")
            self.assertIn(PRIMES, run_on_clusters(2, f"{folder}/primes"))

    def test_the_messaging_example_has_at_most_sixty_lines(self):
        self.assertLessEqual(len((SOURCES / "echo.cpp").read_text().splitlines()), 60)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
