#!/usr/bin/env python3
"""A user's own programs: what docs/PROGRAMS.md shows is compiled with bin/braid-cc and bin/braid-c++, and runs everywhere.

    program_compilers_test.py BIN DOCS [unittest arguments]
"""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1]).resolve()
DOCS = pathlib.Path(sys.argv[2])


def run(*words, folder, expect=0):
    done = subprocess.run([str(w) for w in words], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != expect:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class Programs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        examples = re.findall(r"```(?:c|cpp)\n(?://|/\*) (\S+).*?\n(.*?)```", (DOCS / "PROGRAMS.md").read_text(), re.S)
        self.assertEqual([name for name, _ in examples], ["sum.cpp", "histogram.c"])
        for name, text in examples:
            (self.folder / name).write_text(text)

    def runs_everywhere(self, compiler, flags, source, expected):
        run(BIN / compiler, *flags, source, "-o", "live", folder=self.folder)
        self.assertEqual(run("./live", folder=self.folder).stdout, expected)
        live = run(BIN / "braid", "run", "--quiet", "--clusters", "2", "--compute", "2", "./live", folder=self.folder)
        self.assertIn(expected, live.stdout)
        run(BIN / compiler, "--simulated", *flags, source, "-o", "simulated", folder=self.folder)
        simulated = run(BIN / "braid", "sim", "--clusters", "2", "--compute", "3", "./simulated", folder=self.folder)
        self.assertIn(expected, simulated.stdout)
        self.assertNotRegex(simulated.stderr, r": 0 cycles in parallel| 0\.0 % computing")

    def test_in_cpp(self):
        self.runs_everywhere("braid-c++", ["-O2", "-Wall", "-Wextra", "-Werror"], "sum.cpp", "sum 549755289600, right\n")

    def test_in_c(self):
        flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        self.runs_everywhere("braid-cc", flags, "histogram.c", "100000 values, right\n")

    def test_a_makefile_that_compiles_and_links_separately(self):
        (self.folder / "Makefile").write_text("CXXFLAGS = -O1\nsum: sum.o\n\t$(CXX) $^ -o $@\n")
        run("make", f"CXX={BIN / 'braid-c++'}", "sum", folder=self.folder)
        self.assertEqual(run("./sum", folder=self.folder).stdout, "sum 549755289600, right\n")

    def test_a_program_built_for_the_other_command_fails_with_a_hint(self):
        run(BIN / "braid-c++", "sum.cpp", "-o", "live", folder=self.folder)
        wrong = run(BIN / "braid", "sim", "./live", folder=self.folder, expect=1)
        self.assertIn("before its init(), as one does that was not built for simulation", wrong.stderr)
        run(BIN / "braid-c++", "--simulated", "sum.cpp", "-o", "simulated", folder=self.folder)
        wrong = run("./simulated", folder=self.folder, expect=70)
        self.assertIn("this program was built for simulation: run it with `braid sim`", wrong.stderr)

    def test_thread_local_variables_are_named_where_compute_nodes_share_them(self):
        source = (self.folder / "sum.cpp").read_text()
        (self.folder / "mine.cpp").write_text("thread_local int scratch = 1;\n" + source)
        run(BIN / "braid-c++", "--simulated", "mine.cpp", "-o", "mine", folder=self.folder)
        shared = run(BIN / "braid", "sim", "--clusters", "2", "--compute", "3", "./mine", folder=self.folder)
        self.assertIn("braid: ./mine has thread-local variables (scratch), which the 3 compute nodes of a cluster share",
                      shared.stderr)
        alone = run(BIN / "braid", "sim", "--clusters", "2", "--compute", "1", "./mine", folder=self.folder)
        self.assertNotIn("thread-local", alone.stderr)
        run(BIN / "braid-c++", "--simulated", "sum.cpp", "-o", "sum", folder=self.folder)
        without = run(BIN / "braid", "sim", "--clusters", "2", "--compute", "3", "./sum", folder=self.folder)
        self.assertNotIn("thread-local", without.stderr)

    def test_without_arguments_it_prints_its_purpose(self):
        wrong = run(BIN / "braid-cc", folder=self.folder, expect=2)
        self.assertIn("usage: braid-cc [--simulated | --check-races] ARGUMENT...", wrong.stderr)
        self.assertEqual(run(BIN / "braid-cc", "--simulated", folder=self.folder, expect=2).stdout, "")

    def test_simulated_may_stand_anywhere(self):
        words = ["sum.cpp", "-O1", "-o", "sum"]
        for place in range(len(words) + 1):
            if place == 3:
                continue  # between -o and its word
            run(BIN / "braid-c++", *words[:place], "--simulated", *words[place:], folder=self.folder)
            simulated = run(BIN / "braid", "sim", "--clusters", "2", "./sum", folder=self.folder)
            self.assertIn("sum 549755289600, right\n", simulated.stdout)
            (self.folder / "sum").unlink()

    def test_a_program_of_c_and_cpp(self):
        (self.folder / "twice.c").write_text("int twice(int n) { return 2 * n; }\n")
        source = (self.folder / "sum.cpp").read_text().replace("int main() {", 'extern "C" int twice(int);\nint main() {')
        (self.folder / "both.cpp").write_text(source.replace("right ? 0 : 1", "right ? twice(0) : 1"))
        for flavour, command in (([], "run"), (["--simulated"], "sim")):
            run(BIN / "braid-cc", *flavour, "-c", "twice.c", folder=self.folder)
            run(BIN / "braid-c++", "both.cpp", "twice.o", "-o", "both", *flavour, folder=self.folder)
            done = run(BIN / "braid", command, "--clusters", "2", "./both", folder=self.folder)
            self.assertIn("sum 549755289600, right\n", done.stdout)

    def test_static_programs_are_refused(self):
        wrong = run(BIN / "braid-c++", "sum.cpp", "-static", folder=self.folder, expect=2)
        self.assertIn("braid-c++: -static: a program of Braid links shared libraries; leave it out", wrong.stderr)

    def test_messages_of_the_compiler_are_printed(self):
        (self.folder / "wrong.cpp").write_text("int main() { return missing; }\n")
        wrong = run(BIN / "braid-c++", "wrong.cpp", folder=self.folder, expect=1)
        self.assertIn("missing", wrong.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
