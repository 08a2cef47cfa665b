#!/usr/bin/env python3
"""A user's own programs: what docs/PROGRAMS.md shows is compiled with bin/braid-cc and bin/braid-c++, and runs everywhere.

    program_compilers_test.py BIN DOCS BUILD [unittest arguments]

BUILD, the folder of the build, is installed elsewhere for the tests of that.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1]).resolve()
DOCS = pathlib.Path(sys.argv[2])
BUILD = pathlib.Path(sys.argv[3]).resolve()


def run(*words, folder, expect=0):
    done = subprocess.run([str(w) for w in words], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != expect:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class Programs(unittest.TestCase):
    bin = BIN

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        examples = re.findall(r"```(?:c|cpp)\n(?://|/\*) (\S+).*?\n(.*?)```", (DOCS / "PROGRAMS.md").read_text(), re.S)
        self.assertEqual([name for name, _ in examples], ["sum.cpp", "histogram.c"])
        for name, text in examples:
            (self.folder / name).write_text(text)

    def runs_everywhere(self, compiler, flags, source, expected):
        run(self.bin / compiler, *flags, source, "-o", "live", folder=self.folder)
        self.assertEqual(run("./live", folder=self.folder).stdout, expected)
        live = run(self.bin / "braid", "run", "--quiet", "--clusters", "2", "--compute", "2", "./live", folder=self.folder)
        self.assertIn(expected, live.stdout)
        run(self.bin / compiler, "--simulated", *flags, source, "-o", "simulated", folder=self.folder)
        simulated = run(self.bin / "braid", "sim", "--clusters", "2", "--compute", "3", "./simulated", folder=self.folder)
        self.assertIn(expected, simulated.stdout)
        self.assertNotRegex(simulated.stderr, r": 0 cycles in parallel| 0\.0 % computing")

    def test_in_cpp(self):
        self.runs_everywhere("braid-c++", ["-O2", "-Wall", "-Wextra", "-Werror"], "sum.cpp", "sum 549755289600, right\n")

    def test_in_c(self):
        flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
        self.runs_everywhere("braid-cc", flags, "histogram.c", "100000 values, right\n")

    def test_a_makefile_that_compiles_and_links_separately(self):
        (self.folder / "Makefile").write_text("CXXFLAGS = -O1\nsum: sum.o\n\t$(CXX) $^ -o $@\n")
        run("make", f"CXX={self.bin / 'braid-c++'}", "sum", folder=self.folder)
        self.assertEqual(run("./sum", folder=self.folder).stdout, "sum 549755289600, right\n")

    def test_cmake_builds_a_program_of_c_and_cpp_with_archives_and_lto(self):
        (self.folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.16)\nproject(sums C CXX)\nset(CMAKE_INTERPROCEDURAL_OPTIMIZATION ON)\n"
            "include(CheckIPOSupported)\ncheck_ipo_supported()\nfind_package(Threads REQUIRED)\nadd_library(part STATIC part.c)\n"
            "add_executable(sums sum.cpp more.c)\ntarget_link_libraries(sums part Threads::Threads m)\n")
        (self.folder / "part.c").write_text("int part(int a) { return a; }\n")
        (self.folder / "more.c").write_text("int part(int);\nint more(void) { return part(1); }\n")
        run("cmake", "-S", ".", "-B", "out", f"-DCMAKE_C_COMPILER={self.bin / 'braid-cc'}",
            f"-DCMAKE_CXX_COMPILER={self.bin / 'braid-c++'}", folder=self.folder)
        run("cmake", "--build", "out", folder=self.folder)
        self.assertEqual(run("out/sums", folder=self.folder).stdout, "sum 549755289600, right\n")

    def build_two(self, choose, *options_of_each):
        """0/sum and 1/sum, built with other options each, and `either`: a script that runs one of them."""
        for build, options in enumerate(options_of_each):
            (self.folder / str(build)).mkdir(exist_ok=True)
            run(self.bin / "braid-c++", *options, "sum.cpp", "-o", f"{build}/sum", folder=self.folder)
        (self.folder / "either").write_text("#!/bin/sh\n" + choose)
        (self.folder / "either").chmod(0o755)

    def test_pages_of_a_kib(self):
        for compiler, source, expected in (("braid-c++", "sum.cpp", "sum 549755289600, right\n"),
                                           ("braid-cc", "histogram.c", "100000 values, right\n")):
            run(self.bin / compiler, "--check-accesses", source, "-o", "checked", folder=self.folder)
            done = run(self.bin / "braid", "sim", "--clusters", "2", "--compute", "2", "--page-bytes", "1024", "./checked", folder=self.folder)
            self.assertIn(expected, done.stdout)
        wrong = run(self.bin / "braid-cc", "--check-accesses", "--shared-globals", "histogram.c", folder=self.folder, expect=2)
        self.assertIn("--check-accesses cannot be used with --check-races, --shared-globals or --pthreads", wrong.stderr)

    def test_two_builds_of_a_program_are_no_machine(self):
        for options in ([], ["-Wl,--build-id=none"]):
            with self.subTest(options=options):
                self.build_two('exec "./$BRAID_CLUSTER/sum"\n', ["-O1", *options], ["-O2", *options])
                words = [self.bin / "braid", "run", "--quiet", "--clusters", "2", "./either"]
                wrong = run(*words, folder=self.folder, expect=70)
                self.assertRegex(wrong.stderr, r"cluster \d runs another build of 'sum' \(build id [0-9a-f]{16}\.\.\.\) than cluster \d")
                shutil.copy(self.folder / "0" / "sum", self.folder / "1" / "sum")
                self.assertIn("sum 549755289600, right\n", run(*words, folder=self.folder).stdout)

    def test_two_builds_of_a_program_are_no_simulated_machine(self):
        self.build_two("mkdir taken 2> /dev/null && exec ./0/sum\nexec ./1/sum\n", ["--simulated"],
                       ["--simulated", "-g", "-fno-inline"])
        wrong = run(self.bin / "braid", "sim", "--clusters", "2", "./either", folder=self.folder, expect=1)
        self.assertRegex(wrong.stderr, r"cluster 0 runs another build of 'sum' \(build id [0-9a-f]{16}\.\.\.\) than cluster 1")

    def test_a_program_built_for_the_other_command_fails_with_a_hint(self):
        run(self.bin / "braid-c++", "sum.cpp", "-o", "live", folder=self.folder)
        wrong = run(self.bin / "braid", "sim", "./live", folder=self.folder, expect=1)
        self.assertIn("before its init(), as one does that was not built for simulation", wrong.stderr)
        run(self.bin / "braid-c++", "--simulated", "sum.cpp", "-o", "simulated", folder=self.folder)
        wrong = run("./simulated", folder=self.folder, expect=70)
        self.assertIn("this program was built for simulation: run it with `braid sim`", wrong.stderr)

    def test_thread_local_variables_are_named_where_compute_nodes_share_them(self):
        source = (self.folder / "sum.cpp").read_text()
        (self.folder / "mine.cpp").write_text("thread_local int scratch = 1;\n" + source)
        run(self.bin / "braid-c++", "--simulated", "mine.cpp", "-o", "mine", folder=self.folder)
        shared = run(self.bin / "braid", "sim", "--clusters", "2", "--compute", "3", "./mine", folder=self.folder)
        self.assertIn("braid: ./mine has thread-local variables (scratch), which the 3 compute nodes of a cluster share",
                      shared.stderr)
        alone = run(self.bin / "braid", "sim", "--clusters", "2", "--compute", "1", "./mine", folder=self.folder)
        self.assertNotIn("thread-local", alone.stderr)
        run(self.bin / "braid-c++", "--simulated", "sum.cpp", "-o", "sum", folder=self.folder)
        without = run(self.bin / "braid", "sim", "--clusters", "2", "--compute", "3", "./sum", folder=self.folder)
        self.assertNotIn("thread-local", without.stderr)

    def test_without_arguments_it_prints_its_purpose(self):
        wrong = run(self.bin / "braid-cc", folder=self.folder, expect=2)
        self.assertIn("usage: braid-cc [--pthreads] [--simulated | --check-races | --check-accesses] [--shared-globals] ARGUMENT...", wrong.stderr)
        self.assertEqual(run(self.bin / "braid-cc", "--simulated", folder=self.folder, expect=2).stdout, "")

    def test_simulated_may_stand_anywhere(self):
        words = ["sum.cpp", "-O1", "-o", "sum"]
        for place in range(len(words) + 1):
            if place == 3:
                continue  # between -o and its word
            run(self.bin / "braid-c++", *words[:place], "--simulated", *words[place:], folder=self.folder)
            simulated = run(self.bin / "braid", "sim", "--clusters", "2", "./sum", folder=self.folder)
            self.assertIn("sum 549755289600, right\n", simulated.stdout)
            (self.folder / "sum").unlink()

    def test_a_program_of_c_and_cpp(self):
        (self.folder / "twice.c").write_text("int twice(int n) { return 2 * n; }\n")
        source = (self.folder / "sum.cpp").read_text().replace("int main() {", 'extern "C" int twice(int);\nint main() {')
        (self.folder / "both.cpp").write_text(source.replace("right ? 0 : 1", "right ? twice(0) : 1"))
        for flavour, command in (([], "run"), (["--simulated"], "sim")):
            run(self.bin / "braid-cc", *flavour, "-c", "twice.c", folder=self.folder)
            run(self.bin / "braid-c++", "both.cpp", "twice.o", "-o", "both", *flavour, folder=self.folder)
            done = run(self.bin / "braid", command, "--clusters", "2", "./both", folder=self.folder)
            self.assertIn("sum 549755289600, right\n", done.stdout)

    def test_a_c_program_that_allocates_and_frees_on_any_node(self):
        (self.folder / "list.c").write_text("""#include <stdio.h>
#include "dsm/braid_dsm.h"
struct item { struct item* next; unsigned value; };
struct list { struct item* first; unsigned long sum, length; };
static void work(braid_node* node, void* argument) {
  struct list* const list = argument;
  for (unsigned i = 0; i < 3000; ++i) {
    struct item* mine = braid_malloc(sizeof *mine);
    mine->value = i;
    if (braid_node_id(braid_self()) != braid_node_id(node)) list->sum += 1;
    braid_lock(braid_self(), 0);
    mine->next = list->first;
    list->first = mine;
    if (++list->length > 20) {
      struct item* other = mine->next->next;
      mine->next->next = other->next;
      list->sum += other->value;
      --list->length;
      braid_free(other);
    }
    braid_unlock(node, 0);
  }
}
int main(void) {
  braid_init();
  struct list* const list = braid_allocate(sizeof *list, braid_place_on(0));
  braid_parallel(work, list);
  unsigned long sum = list->sum;
  for (struct item* item = list->first; item; item = item->next) sum += item->value;
  if (braid_cluster() == 0) printf("sum %lu\\n", sum);
  return braid_finish(0);
}
""")
        for flavour, command in ([], "run"), (["--simulated"], "sim"), (["--check-races"], "sim"):
            run(self.bin / "braid-cc", *flavour, "-O2", "list.c", "-o", "list", folder=self.folder)
            done = run(self.bin / "braid", command, "--clusters", "2", "--compute", "2", "./list", folder=self.folder)
            self.assertIn(f"sum {4 * 3000 * 2999 // 2}\n", done.stdout)

    def test_static_programs_are_refused(self):
        wrong = run(self.bin / "braid-c++", "sum.cpp", "-static", folder=self.folder, expect=2)
        self.assertIn("braid-c++: -static: a program of Braid links shared libraries; leave it out", wrong.stderr)

    def test_words_of_makefiles_and_configure_scripts(self):
        text = "int main(void) { return 0; }\n"
        (self.folder / "a.c").write_text(text)
        (self.folder / "words").write_text("-O1 a.c -o a\n")
        for pthreads in ([], ["--pthreads"]):
            for words in (["-x", "c", "-", "-o", "a"], ["-xc", "a.c", "-o", "a"], ["-v", "a.c", "-o", "a"], ["@words"]):
                with self.subTest(words=pthreads + words):
                    subprocess.run([self.bin / "braid-cc", *pthreads, *words], cwd=self.folder, input=text, capture_output=True,
                                   text=True, timeout=60, check=True)
                    run("./a", folder=self.folder)
                    (self.folder / "a").unlink()
            for word in ("-v", "-dumpmachine", "-print-prog-name=ld", "--help", "-Wl,--version"):
                run(self.bin / "braid-cc", *pthreads, word, folder=self.folder)

    def test_messages_of_the_compiler_are_printed(self):
        (self.folder / "wrong.cpp").write_text("int main() { return missing; }\n")
        wrong = run(self.bin / "braid-c++", "wrong.cpp", folder=self.folder, expect=1)
        self.assertIn("missing", wrong.stderr)


class Installed(unittest.TestCase):
    """The build is installed in one folder, which then moves; programs are built and run by the links in its bin/."""

    @classmethod
    def setUpClass(cls):
        cls.top = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.top)
        run("cmake", "--install", BUILD, "--prefix", cls.top / "first", folder=cls.top)
        cls.prefix = cls.top / "second"
        (cls.top / "first").rename(cls.prefix)
        cls.bin = cls.prefix / "bin"

    setUp = Programs.setUp
    runs_everywhere = Programs.runs_everywhere
    test_in_cpp = Programs.test_in_cpp
    test_in_c = Programs.test_in_c
    test_a_program_of_c_and_cpp = Programs.test_a_program_of_c_and_cpp
    test_cmake = Programs.test_cmake_builds_a_program_of_c_and_cpp_with_archives_and_lto

    def test_nothing_of_the_source_or_the_build_is_used(self):
        source = str(DOCS.resolve().parent)
        commands = self.prefix / "lib/braid/bin"
        scripts = [f for f in commands.iterdir() if f.is_file() and f.read_bytes().startswith(b"#!")]
        self.assertEqual({f.name for f in scripts} - {"braid-gcc-ar", "braid-gcc-ranlib"},
                         {"braid-c++", "braid-cc", "braid-parmacs", "braid-study-table"})
        for script in scripts:
            self.assertNotIn(source, script.read_text(), script)
        for flavour in ([], ["--simulated"], ["--check-races"], ["--check-accesses"]):
            used = run(self.bin / "braid-c++", *flavour, "-M", "sum.cpp", folder=self.folder).stdout
            self.assertIn("include/dsm/api.h", used)
            self.assertNotIn(source, used)

    def test_races_are_checked(self):
        run(self.bin / "braid-c++", "--check-races", "sum.cpp", "-o", "checked", folder=self.folder)
        checked = run(self.bin / "braid", "sim", "--clusters", "2", "./checked", folder=self.folder)
        self.assertIn("sum 549755289600, right", checked.stdout)

    def test_programs_with_macros(self):
        (self.folder / "count.C.in").write_text("""#include <stdio.h>
MAIN_ENV
struct shared { LOCKDEC(lock) BARDEC(barrier) int sum; } *shared;
void add(void) { LOCK(shared->lock) shared->sum += 1; UNLOCK(shared->lock) BARRIER(shared->barrier, 4) }
int main(void) {
  MAIN_INITENV
  shared = G_MALLOC(sizeof *shared);
  LOCKINIT(shared->lock) BARINIT(shared->barrier, 4)
  CREATE(add, 4)
  WAIT_FOR_END(3)
  printf("sum %d\\n", shared->sum);
  MAIN_END
}
""")
        run(self.bin / "braid", "parmacs", "count.C.in", "-o", "count", folder=self.folder)
        done = run(self.bin / "braid", "run", "--quiet", "--clusters", "2", "--compute", "2", "./count", folder=self.folder)
        self.assertEqual(done.stdout, "[c0] sum 4\n")

    def test_the_applications_and_the_configurations(self):
        live = run(self.bin / "braid", "run", "--quiet", "--clusters", "2", "jacobi", "--size", "64",
                   folder=self.folder)
        self.assertIn("verified", live.stdout)
        shared = self.prefix / "share/braid"
        self.assertTrue(list((shared / "configs").glob("*.yaml")))
        run(self.bin / "braid-c++", shared / "examples/primes.cpp", "-o", "primes", folder=self.folder)
        run(self.bin / "braid", "run", "--clusters", "2", "./primes", folder=self.folder)

    def test_a_folder_with_blanks_is_refused(self):
        blanks = self.top / "a b"
        shutil.copytree(self.prefix, blanks, symlinks=True)
        wrong = run(blanks / "bin/braid-cc", "sum.cpp", folder=self.folder, expect=2)
        self.assertIn(f"braid-cc: this command is in '{blanks}/lib/braid', whose name has blanks", wrong.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
