#!/usr/bin/env python3
"""Data races in users' programs: `braid-cc --check-races` and `braid sim` name both places, and nothing else.

    races_test.py BIN [unittest arguments]
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1]).resolve()

# In every case compute nodes 0 and 1 run first(), and then second(), each on its own; `x` is shared. The lines that a
# case marks with FIRST and SECOND are those of the race.
CPP = """#include <cstring>
#include "dsm/api.h"
namespace dsm = braid::dsm;
static long* x;
static char* bytes;
struct Big { long part[40]; };
[[maybe_unused]] static Big private_big;
%s
int main() {
  dsm::init();
  x = dsm::allocate<long>(1024);
  bytes = dsm::allocate<char>(4096);
  dsm::parallel([](dsm::Node& node) {
    if (node.id() == 0) first(node);
    if (node.id() == 1) second(node);
  });
  return dsm::finish(x[0] == -1 ? 1 : 0);
}
"""
C = """#include "dsm/braid_dsm.h"
static long *x;
static void work(braid_node *node, void *argument) {
  (void)argument;
  if (braid_node_id(node) > 1) return;
%s
}
int main(void) {
  braid_init();
  x = braid_allocate(8192, braid_place_block());
  braid_parallel(work, 0);
  return braid_finish(0);
}
"""


def case(first, second):
    return f"static void first(dsm::Node& node) {{\n  (void)node;\n{first}\n}}\n" \
           f"static void second(dsm::Node& node) {{\n  (void)node;\n{second}\n}}\n"


class Races(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, compiler, name, text, *words):
        (self.folder / name).write_text(text)
        done = subprocess.run([BIN / compiler, "--check-races", *words, "-Wall", "-Werror", name, "-o", "prog"], cwd=self.folder,
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def run_it(self, machine, status):
        done = subprocess.run([BIN / "braid", "sim", "--quiet", *machine, "./prog"], cwd=self.folder, capture_output=True,
                              text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    ONE_CLUSTER = ("--clusters", "1", "--compute", "2")
    TWO_CLUSTERS = ("--clusters", "2", "--compute", "1")

    def races(self, first, second, kinds):
        """The machine's nodes are of one cluster, and then of two; the report is the same in each run."""
        text = CPP % case(first, second)
        lines = {mark: 1 + text[:text.index(mark)].count("\n") for mark in ("FIRST", "SECOND")}
        self.build("braid-c++", "case.cpp", text)
        for machine in (self.ONE_CLUSTER, self.TWO_CLUSTERS):
            report = self.run_it(machine, 66)
            self.assertIn("--check-races: 1 data race in ", report)
            other = "0.1" if machine is self.ONE_CLUSTER else "1.0"
            for node, function, mark, kind in (("0.0", "first", "FIRST", kinds[0]), (other, "second", "SECOND", kinds[1])):
                self.assertRegex(report, rf"{kind} by compute node {node} in {function}(\(.*\))? at case.cpp:{lines[mark]}\n")
            allocated = 1 + text[:text.index("x = dsm::allocate")].count("\n")
            self.assertRegex(report, rf"at byte \d+ of the (8192 bytes that were allocated in main at case.cpp:{allocated}"
                                     rf"|4096 bytes that were allocated in main at case.cpp:{allocated + 1})\n")
            self.assertEqual(self.run_it(machine, 66), report)
        return report

    def clean(self, first, second):
        self.build("braid-c++", "case.cpp", CPP % case(first, second))
        for machine in (self.ONE_CLUSTER, self.TWO_CLUSTERS):
            self.assertRegex(self.run_it(machine, 0), r"--check-races: no data races in [1-9]\d* accesses")

    def test_two_writes(self):
        report = self.races("  x[3] = 1;  // FIRST", "  x[3] = 2;  // SECOND", ("write", "write"))
        self.assertIn("at byte 24 of the 8192 bytes", report)

    def test_a_write_and_a_read(self):
        self.races("  x[3] = 1;  // FIRST", "  x[5] = x[3];  // SECOND", ("write", "read"))

    def test_one_side_without_the_lock(self):
        self.races("  node.lock(1);\n  x[1] = 1;  // FIRST\n  node.unlock(1);", "  x[1] = 2;  // SECOND", ("write", "write"))

    def test_different_locks(self):
        self.races("  node.lock(1);\n  x[1] = 1;  // FIRST\n  node.unlock(1);",
                   "  node.lock(2);\n  x[1] = 2;  // SECOND\n  node.unlock(2);", ("write", "write"))

    def test_locks_at_different_addresses(self):
        self.races("  node.lock_at(x);\n  x[1] = 1;  // FIRST\n  node.unlock_at(x);",
                   "  node.lock_at(x + 1);\n  x[1] = 2;  // SECOND\n  node.unlock_at(x + 1);", ("write", "write"))

    def test_a_write_after_the_barrier_that_the_reader_has_left(self):
        self.races("  node.barrier();\n  x[1] = 1;  // FIRST\n  node.barrier();",
                   "  node.barrier();\n  x[2] = x[1];  // SECOND\n  node.barrier();", ("write", "read"))

    def test_a_write_after_the_flag(self):
        self.races("  node.flag_set(1);\n  x[1] = 1;  // FIRST", "  node.flag_wait(1);\n  x[2] = x[1];  // SECOND", ("write", "read"))

    def test_a_relaxed_word_orders_nothing(self):
        self.races(f"  x[1] = 1;  // FIRST\n  {self.RELAXED};", f"  while ({self.RELAXED} == 0) {{}}\n  x[2] = x[1];  // SECOND",
                   ("write", "read"))

    def test_memcpy_and_memset(self):
        self.races("  std::memcpy(bytes + 100, &private_big, 300);  // FIRST", "  bytes[399] = 1;  // SECOND", ("write", "write"))
        self.races("  std::memset(bytes, 1, 4096);  // FIRST", "  x[8] = bytes[9];  // SECOND",
                   ("write", "read"))

    def test_a_structure_is_copied(self):
        self.races("  *reinterpret_cast<Big*>(bytes) = private_big;  // FIRST", "  bytes[319] = 1;  // SECOND", ("write", "write"))

    def test_neighbouring_bytes_are_no_race(self):
        self.clean("  for (int i = 0; i < 4096; i += 2) bytes[i] = 1;", "  for (int i = 1; i < 4096; i += 2) bytes[i] = 2;")

    def test_reads_are_no_race(self):
        self.clean("  x[10] = x[1];", "  x[11] = x[1];")

    def test_all_that_orders(self):
        for name, before, after in (
                ("lock", "node.lock(1); x[1]++; node.unlock(1);", "node.lock(1); x[1]++; node.unlock(1);"),
                ("flag", "x[1] = 1; node.flag_set(1);", "node.flag_wait(1); x[1] = 2;"),
                ("semaphore", "x[1] = 1; node.semaphore_post(1);", "node.semaphore_wait(1); x[1] = 2;"),
                ("word", "x[1] = 1; node.store(1, 1);", "while (node.load(1) == 0) {} x[1] = 2;"),
                ("exchange", "x[1] = 1; node.exchange(1, 1);", "while (node.fetch_add(1, 0) == 0) {} x[1] = 2;"),
                ("barrier", "x[1] = 1; node.barrier();", "node.barrier(); x[1] = 2;"),
                ("reduction", "x[1] = 1; node.reduce(1);", "node.reduce(1); x[1] = 2;"),
                ("lock at an address", "node.lock_at(x); x[1]++; node.unlock_at(x);", "while (!node.try_lock_at(x)) {} x[1]++; node.unlock_at(x);"),
                ("barrier at an address", "x[1] = 1; node.barrier_at(x, 2);", "node.barrier_at(x, 2); x[1] = 2;"),
                ("semaphore at an address", "x[1] = 1; node.semaphore_set_at(x, 1);", "while (!node.semaphore_try_at(x)) {} x[1] = 2;"),
                ("condition", "node.lock(1); x[1] = 1; node.condition_signal(1); node.unlock(1);",
                 "node.lock(1); while (x[1] == 0) node.condition_wait(1, 1); x[1] = 2; node.unlock(1);")):
            with self.subTest(name):
                self.clean("  " + before, "  " + after)

    RELAXED = "node.fetch_add(1, 1, dsm::MemoryOrder::kRelaxed)"

    def steps(self, first, second):
        """What the report says of the synchronisation before and after FIRST, and before and after SECOND; text and JSON agree."""
        text = CPP % case(first, second)
        self.build("braid-c++", "case.cpp", text)
        report = self.run_it((*self.TWO_CLUSTERS, "--report", "report.json"), 66)
        found = json.loads((self.folder / "report.json").read_text())["data_races"]
        self.assertEqual((found["count"], found["incomplete"], len(found["races"])), (1, False, 1), report)
        steps = {}
        for access in found["races"][0]["accesses"]:
            self.assertEqual((access["kind"], access["node"]), ("write", 0))
            self.assertIn(f"write by compute node {access['cluster']}.0 in {access['where']}\n", report)
            self.assertNotIn(access["cluster"], steps)
            told = []
            for when, words in (("before", "last before it"), ("after", "first after it")):
                step = access[when]
                told.append(step and (step["what"], re.sub(r"\(.*\)", "()", step["where"])))
                if step:
                    self.assertIn(f"braid:     {words}: {step['what']} in {step['where']}\n", report)
            steps[access["cluster"]] = tuple(told)
        told = sum(step is not None for both in steps.values() for step in both)
        self.assertEqual(len(re.findall(r" (?:last before|first after) it: ", report)), told, report)
        line = {mark: 1 + text[:text.index(mark)].count("\n") for mark in ("FIRST", "SECOND")}
        return steps, lambda function, mark, offset: f"{function} at case.cpp:{line[mark] + offset}"

    def test_the_steps_around_a_race_with_a_lock_and_a_barrier(self):
        steps, at = self.steps(f"  node.barrier(3);\n  node.lock(5);\n  x[1] = 1;  // FIRST\n  node.unlock(5);\n  {self.RELAXED};",
                               f"  node.lock(5);\n  node.unlock(5);\n  node.barrier(3);\n  while ({self.RELAXED.replace('1, 1', '1, 0')} == 0) {{}}\n"
                               "  x[1] = 2;  // SECOND\n  node.barrier(4);")
        self.assertEqual(steps[0], (("locked lock 5", at("first", "FIRST", -1)), ("unlocked lock 5", at("first", "FIRST", 1))))
        self.assertEqual(steps[1], (("passed barrier 3", at("second", "SECOND", -2)), None))

    def test_the_steps_around_a_race_with_semaphores(self):
        steps, at = self.steps("  node.semaphore_wait(2);\n  node.semaphore_post(3);\n  x[1] = 1;  // FIRST",
                               "  node.semaphore_post(2);\n  node.semaphore_wait(3);\n  x[1] = 2;  // SECOND")
        self.assertEqual(steps[0][0], ("posted semaphore 3", at("first", "FIRST", -1)))
        self.assertEqual(steps[1][0], ("waited for semaphore 3", at("second", "SECOND", -1)))

    def test_the_steps_around_a_race_with_a_condition(self):
        # The node waits before the other one can have the lock.
        steps, at = self.steps("  node.semaphore_wait(2);\n  node.lock(1);\n  x[8] = 1;\n  node.condition_signal(7);\n  node.unlock(1);\n"
                               "  x[1] = 1;  // FIRST",
                               "  node.lock(1);\n  node.semaphore_post(2);\n  while (x[8] == 0) node.condition_wait(7, 1);\n"
                               "  x[1] = 2;  // SECOND\n  node.unlock(1);")
        self.assertEqual(steps[0][0], ("unlocked lock 1", at("first", "FIRST", -1)))
        self.assertEqual(steps[1][0], ("waited for condition 7", at("second", "SECOND", -1)))

    def test_steps_are_told_apart_by_their_lines(self):
        """The same frames on the stack, and more places than are remembered at once."""
        many = "\n".join(f"    node.lock({20 + i}); node.unlock({20 + i});" for i in range(30))
        loop = f"  for (int i = 0; i < 3; ++i) {{\n{many}\n  }}"
        steps, at = self.steps(f"{loop}\n  x[1] = 1;  // FIRST", f"  node.lock(9);\n  x[1] = 2;  // SECOND\n  node.unlock(9);")
        self.assertEqual(steps[0][0], ("unlocked lock 49", at("first", "FIRST", -2)))
        self.assertEqual(steps[1][0], ("locked lock 9", at("second", "SECOND", -1)))

    def test_a_step_that_is_too_long_ago_is_not_told(self):
        long_ago = "for (int i = 0; i < 20000; ++i) { node.lock(9); node.unlock(9); }"
        steps, _ = self.steps(f"  x[1] = 1;  // FIRST\n  {long_ago}\n  node.store(1, 1, dsm::MemoryOrder::kRelaxed);",
                              "  while (node.load(1) == 0) {}\n  x[1] = 2;  // SECOND")
        self.assertEqual(steps[0], (None, None))
        self.assertEqual(steps[1][0][0], "read word 1")

    def test_the_steps_are_those_of_parallel_where_there_are_no_others(self):
        steps, _ = self.steps("  x[1] = 1;  // FIRST", "  x[1] = 2;  // SECOND")
        self.assertEqual((steps[0][0][0], steps[1][0][0]), ("began parallel()", "began parallel()"))
        self.assertRegex(steps[0][0][1], r"^main at case\.cpp:\d+$")
        self.assertEqual({steps[0][1], steps[1][1]}, {None, ("ended parallel()", steps[0][0][1])})

    def test_a_lock_among_the_programs_globals_has_its_name(self):
        text = """#include "dsm/braid_dsm.h"
static int table_lock;
static long sum;
static void work(braid_node *node, void *argument) {
  (void)argument;
  braid_lock_at(node, &table_lock);
  braid_unlock_at(node, &table_lock);
  sum += 1;
}
int main(void) {
  braid_start_clusters();
  braid_init();
  braid_parallel(work, 0);
  return braid_finish(0);
}
"""
        self.build("braid-cc", "case.c", text, "--shared-globals")
        report = self.run_it(self.TWO_CLUSTERS, 66)
        self.assertRegex(report, r"braid:     last before it: unlocked the lock at 0x[0-9a-f]+ \(table_lock\) in work at case.c:7\n")

    def test_parallel_is_ordered_with_main(self):
        self.build("braid-c++", "main.cpp", """#include "dsm/api.h"
int main() {
  braid::dsm::init();
  long* x = braid::dsm::allocate<long>(64);
  if (braid::dsm::cluster() == 0) x[0] = 1;
  long seen = 0;
  for (int step = 0; step < 3; ++step) {
    braid::dsm::parallel([&](braid::dsm::Node& node) { x[1 + node.id()] += x[0]; });
    if (braid::dsm::cluster() == 0) x[0] = x[1] + x[2] + x[3] + x[4];
  }
  return braid::dsm::finish(seen);
}
""")
        report = self.run_it(("--clusters", "2", "--compute", "2"), 0)
        self.assertIn("no data races in", report)

    def test_in_c(self):
        self.build("braid-cc", "case.c", C % "  x[2] += 1;  /* 6 */")
        for machine in (self.ONE_CLUSTER, self.TWO_CLUSTERS):
            report = self.run_it(machine, 66)
            self.assertEqual(len(re.findall(r" in work at case.c:6\n", report)), 4, report)  # a read and a write, of a write
            self.assertIn("--check-races: 2 data races in ", report)
            self.assertIn("at byte 16 of the 8192 bytes that were allocated in main at case.c:10", report)
        self.build("braid-cc", "case.c", C % "  braid_lock(node, 2); x[2] += 1; braid_unlock(node, 2);")
        self.assertIn("no data races", self.run_it(self.TWO_CLUSTERS, 0))

    def test_most_reports_are_counted_only(self):
        lines = "\n".join(f"  x[{i}] = 1;" for i in range(30))
        self.build("braid-cc", "case.c", C % lines)
        report = self.run_it(self.TWO_CLUSTERS, 66)
        self.assertEqual(report.count("data race: "), 20)
        self.assertRegex(report, r"30 data races in \d+ accesses to shared memory; 10 of them not shown")

    def test_live_runs_refuse_such_a_program(self):
        self.build("braid-cc", "case.c", C % "  x[2] += 1;")
        done = subprocess.run(["./prog"], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 70)
        self.assertIn("this program was built for simulation: run it with `braid sim`", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
