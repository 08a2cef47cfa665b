#!/usr/bin/env python3
"""`braid run --label`: what an application writes comes out byte for byte where its output has no labels, on one host and
with `--hosts`; a reader that goes away ends the run; wrong use is refused.

    label_test.py BIN [unittest's options]
"""

import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv.pop(1)).absolute()
PLACES = {"one host": ("--clusters", "2"), "hosts": ("--hosts", "127.0.0.1,127.0.0.2")}
MIB = 1 << 20
# Threads of several clusters write in turn, parts of lines too.
IN_TURN = r"""
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

enum { kThreads = 4, kTurns = 200 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void* write_turns(void* own) {
  for (;;) {
    pthread_mutex_lock(&mutex);
    while (turn < kTurns && turn % kThreads != (intptr_t)own) pthread_cond_wait(&changed, &mutex);
    if (turn == kTurns) break;
    const unsigned char byte = (unsigned char)turn++;
    if (write(1, &byte, 1) != 1) _exit(9);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
  }
  pthread_mutex_unlock(&mutex);
  return 0;
}

int main(void) {
  pthread_t threads[kThreads];
  for (intptr_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], 0, write_turns, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], 0);
  return 0;
}
"""


class LabelTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def script(self, text):
        path = self.folder / "program"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return str(path)

    @staticmethod
    def run_braid(*words, quiet=True, **more):
        return subprocess.run([BIN / "braid", "run", *(("--quiet",) if quiet else ()), "--compute", "1", *words],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False, **more)

    def in_every_place(self, *words, status=0):
        runs = [self.run_braid(*place, *words) for place in PLACES.values()]
        for run in runs:
            self.assertEqual(run.returncode, status, run.stderr)
        return runs

    def test_binary_bytes_without_a_last_newline(self):
        data = bytes(range(256)) * 300 + b"\n\0\n\n" + random.Random(5).randbytes(100_000) + b"end"
        (self.folder / "data").write_bytes(data)
        program = self.script(f'if [ $BRAID_CLUSTER = 0 ]; then cat {self.folder}/data; else echo strange >&2; fi\n')
        for run in self.in_every_place("--label", "stderr", program):
            self.assertEqual(run.stdout, data)
            self.assertEqual(run.stderr, b"[c1] strange\n")

    def test_standard_error_likewise(self):
        program = self.script("if [ $BRAID_CLUSTER = 1 ]; then printf 'half\\0' >&2; printf whole; fi\n")
        for run in self.in_every_place("--label", "none", program):
            self.assertEqual((run.stdout, run.stderr), (b"whole", b"half\0"))

    def test_lines_have_labels_unless_they_are_not_wanted(self):
        program = self.script("[ $BRAID_CLUSTER = 1 ] && echo line; exit 0\n")
        for words in ((), ("--label", "all")):
            for run in self.in_every_place(*words, program):
                self.assertEqual((run.stdout, run.stderr), (b"[c1] line\n", b""))

    def test_the_commands_own_words_stay_on_standard_error(self):
        program = self.script("printf bytes; exit 3\n")
        for run in self.in_every_place("--label", "none", program, status=3):
            self.assertEqual(run.stdout.replace(b"bytes", b""), b"")
            self.assertIn(b"exited with status 3", run.stderr)

    def test_a_hundred_mebibytes(self):
        # cat in pieces that are no multiple of a pipe's.
        program = self.script("[ $BRAID_CLUSTER = 0 ] || exit 0\n"
                              f"exec {sys.executable} -c 'import os, random\n"
                              f"data = random.Random(7).randbytes({MIB} + 13)\n"
                              "for _ in range(100):\n"
                              "    left = memoryview(data)\n"
                              "    while left: left = left[os.write(1, left[:70001]):]'\n")
        expected = hashlib.sha256(random.Random(7).randbytes(MIB + 13) * 100).hexdigest()
        for run in self.in_every_place("--label", "stderr", program):
            self.assertEqual(len(run.stdout), 100 * (MIB + 13))
            self.assertEqual(hashlib.sha256(run.stdout).hexdigest(), expected)

    def test_part_of_a_line_comes_at_once(self):
        program = self.script("[ $BRAID_CLUSTER = 0 ] || exit 0\nprintf 'password: '; exec sleep 60\n")
        for name, place in PLACES.items():
            with self.subTest(name):
                command = subprocess.Popen([BIN / "braid", "run", "--quiet", *place, "--label", "none", program],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertEqual(os.read(command.stdout.fileno(), 100), b"password: ")
                command.send_signal(signal.SIGTERM)
                command.communicate(timeout=30)
                self.assertEqual(command.returncode, 128 + signal.SIGTERM)

    def test_a_reader_that_goes_away_ends_the_run(self):
        program = self.script("exec cat /dev/zero\n")
        for name, place in PLACES.items():
            with self.subTest(name):
                command = subprocess.Popen([BIN / "braid", "run", "--quiet", *place, "--label", "stderr", program],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertEqual(os.read(command.stdout.fileno(), 1), b"\0")
                command.stdout.close()
                errors = command.stderr.read()
                self.assertEqual(command.wait(timeout=30), 128 + signal.SIGPIPE, errors)
                command.stderr.close()

    def test_writes_of_several_clusters_keep_their_order(self):
        (self.folder / "turns.c").write_text(IN_TURN)
        subprocess.run([BIN / "braid-cc", "--pthreads", "-O2", "turns.c", "-o", "turns"], cwd=self.folder, check=True)
        run = self.run_braid("--clusters", "4", "--label", "stderr", str(self.folder / "turns"))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(run.stdout, bytes(range(200)))

    def test_programs_whose_main_runs_once_on_hosts(self):
        (self.folder / "turns.c").write_text(IN_TURN)
        subprocess.run([BIN / "braid-cc", "--pthreads", "-O2", "turns.c", "-o", "turns"], cwd=self.folder, check=True)
        run = self.run_braid("--hosts", "127.0.0.1:2,127.0.0.2:2", "--label", "none", str(self.folder / "turns"))
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        self.assertEqual(sorted(run.stdout), sorted(bytes(range(200))))

    def test_wrong_words_are_refused(self):
        run = self.run_braid("--label", "lines", "true")
        self.assertEqual(run.returncode, 64)
        self.assertIn(b"--label lines: before their lines all outputs have a label, stderr alone, or none", run.stderr)


if __name__ == "__main__":
    unittest.main()
