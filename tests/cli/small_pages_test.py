#!/usr/bin/env python3
"""Pages that are shorter than the kernel's, in simulation: programs with access checks.

    small_pages_test.py BIN [unittest arguments]
"""

import pathlib
import subprocess
import sys
import unittest

from simulated_runs import SMALL, Simulator

BIN = pathlib.Path(sys.argv[1])
APP = BIN / "cli_small_pages_app"
sim = Simulator(BIN)


def total(report, count):
    return sum(cluster["cluster_counts"][count] for cluster in report["clusters"])


class Programs(unittest.TestCase):
    def test_each_result_is_right(self):
        for name, arguments in SMALL.items():
            for page_bytes, protocol, clusters, compute in (("1024", "eager", 4, 1), ("1024", "mgs", 2, 2), ("1024", "lazy", 3, 1),
                                                            ("2048", "eager", 2, 2), ("2048", "mgs", 3, 1), ("2048", "lazy", 2, 1)):
                with self.subTest(program=name, page_bytes=page_bytes, protocol=protocol):
                    report, output, _ = sim("--clusters", str(clusters), "--compute", str(compute), "--protocol", protocol,
                                            "--page-bytes", page_bytes, name, *arguments)
                    self.assertIn("verified", output)
                    self.assertEqual(report["config"]["engine"]["page_bytes"], int(page_bytes))

    def test_the_same_run_gives_the_same_report(self):
        words = ("--clusters", "3", "--compute", "2", "--page-bytes", "1024", "water", *SMALL["water"])
        self.assertEqual(sim(*words)[0]["trace_hash"], sim(*words)[0]["trace_hash"])

    # Free checks change nothing but the place of an access among the charges around it: some units.
    def test_with_the_kernels_pages_checks_change_nothing_but_their_cost(self):
        def figures(program, *options):
            report, output, _ = sim("--clusters", "3", "--compute", "2", *options, program, *arguments)
            self.assertIn("verified", output)
            return report["messages"]["count"], total(report, "pages_sent"), report["parallel_cycles"]

        for name in ("jacobi", "matmul", "gauss", "fft"):
            arguments = SMALL[name]
            with self.subTest(program=name):
                checked = str(BIN / "sim" / "checked" / name)
                *plain, cycles = figures(name, "--set", "cycles.unit=1")
                *free, free_cycles = figures(checked, "--set", "cycles.unit=1,cycles.check=0")
                self.assertEqual(free, plain)
                self.assertAlmostEqual(free_cycles, cycles, delta=cycles / 1000)
                self.assertGreater(figures(checked, "--set", "cycles.unit=1,cycles.check=1000")[2], 2 * cycles)

    # Every fourth of its bytes that is fetched is used.
    def test_shorter_pages_carry_less_that_nobody_uses(self):
        def bytes_of_pages(page_bytes):
            report, _, _ = sim("--clusters", "4", "--compute", "1", "--protocol", "mgs", "--page-bytes", str(page_bytes),
                               "water", *SMALL["water"])
            return total(report, "pages_sent"), total(report, "pages_sent") * page_bytes

        pages, volume = bytes_of_pages(4096)
        short_pages, short_volume = bytes_of_pages(1024)
        self.assertGreater(short_pages, pages)
        self.assertLess(short_volume, volume)


class Accesses(unittest.TestCase):
    def access(self, how, page_bytes=1024):
        """Returns what the last node has seen, and the pages that its access has fetched."""
        def run(*arguments):
            return sim("--clusters", "2", "--compute", "1", "--protocol", "mgs", "--page-bytes", str(page_bytes), APP, *arguments)

        before = total(run()[0], "pages_sent")
        report, output, _ = run(how)
        return output, total(report, "pages_sent") - before

    def test_a_checked_access_fetches_its_page_alone(self):
        output, pages = self.access("checked")
        self.assertIn("saw 5\n", output)
        self.assertEqual(pages, 1)

    def test_an_access_across_two_pages_fetches_both(self):
        output, pages = self.access("span")
        self.assertIn("saw 505050504040404\n", output)
        self.assertEqual(pages, 2)

    def test_code_without_checks_gets_all_pages_of_the_kernels(self):
        output, pages = self.access("stray")
        self.assertIn("saw 5\n", output)
        self.assertEqual(pages, 4)
        self.assertEqual(self.access("stray", 2048)[1], 2)

    def test_what_code_without_checks_writes_arrives(self):
        output, pages = self.access("strayed-write")
        self.assertIn("saw 99\n", output)
        self.assertIn("home has 99\n", output)
        self.assertEqual(pages, 4)

    def test_memory_is_copied_page_by_page(self):
        output, pages = self.access("copy")
        self.assertIn("saw 1 4 1 77 0\n", output)
        self.assertEqual(pages, 4 + 3 + 1, "500 to 3499, 8200 to 11199, and 12288")

    def test_an_atomic_access_is_checked(self):
        output, pages = self.access("atomic")
        self.assertIn("saw 3030304\n", output)
        self.assertEqual(pages, 1)

    def test_a_structure_is_copied_from_two_pages_to_two(self):
        output, pages = self.access("structure")
        self.assertIn("saw 1 2\n", output)
        self.assertEqual(pages, 4, "0 and 1; 2 and 3")

    def test_an_access_behind_the_last_allocation_is_a_crash_that_says_so(self):
        _, _, errors = sim("--clusters", "2", "--compute", "1", "--page-bytes", "1024", APP, "behind", expect=None)
        self.assertIn("an access behind the last allocation of the shared heap", errors)
        source = (pathlib.Path(__file__).parent / "small_pages_app.cpp").read_text().splitlines()
        line = 1 + source.index("    memory[kBytes] = 1;")
        # The check's beginning, which is the end of what is before it.
        self.assertRegex(errors, rf"#\d+ access at .*small_pages_app.cpp:({line}|{line - 1})\n")


class Refusals(unittest.TestCase):
    def test_a_program_without_checks_is_refused(self):
        _, _, errors = sim("--clusters", "1", "--page-bytes", "1024", BIN / "cli_stuck_app", "computing", expect=None)
        self.assertIn("pages of 1024 bytes are shorter than the kernel's, and the program was built without access checks: build it with "
                      "`braid-cc --check-accesses`, or take pages of 4096 bytes or more (--page-bytes)", errors)

    def test_a_live_run_is_refused(self):
        run = subprocess.run([BIN / "braid", "run", "--clusters", "1", "--page-bytes", "2048", "jacobi"], capture_output=True, text=True,
                             timeout=60, check=False)
        self.assertEqual(run.returncode, 78)
        self.assertIn("--page-bytes: 2048: pages that are shorter than the kernel's, 4096 bytes, are only for `braid sim`; take 4096",
                      run.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
