#!/usr/bin/env python3
"""Programs whose own globals are shared memory: built with --shared-globals in many ways, and run live on several clusters.

    shared_globals_test.py BIN FOLDER BUILD [unittest arguments]      FOLDER: the programs; BUILD is installed for a test
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1]).resolve()
FOLDER = pathlib.Path(sys.argv[2]).resolve()
BUILD = pathlib.Path(sys.argv[3]).resolve()
SWITCH = "--shared-globals"


def run(*words, folder, expect=0, stdin=None):
    done = subprocess.run([str(w) for w in words], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
                          input=stdin)
    if done.returncode != expect:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


class Folder(unittest.TestCase):
    bin = BIN

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, compiler, *words, expect=0):
        return run(self.bin / compiler, *words, folder=self.folder, expect=expect)

    def live(self, clusters, compute, *program, expect=0):
        return run(self.bin / "braid", "run", "--quiet", "--clusters", clusters, "--compute", compute, "--proxies", "1", *program,
                   folder=self.folder, expect=expect)

    def simulated(self, clusters, compute, *program, expect=0):
        return run(self.bin / "braid", "sim", "--quiet", "--clusters", clusters, "--compute", compute, *program,
                   folder=self.folder, expect=expect)

    def program(self, text, *flags, name="a.c", switch=SWITCH):
        (self.folder / name).write_text(text)
        self.build("braid-c++" if name.endswith("cpp") else "braid-cc", *([switch] if switch else []), "-g", *flags, name, "-o", "a")


class Mixed(Folder):
    """A program of C, of C++ and of an archive, with every kind of globals, 2 MiB of .data and as much .bss, or LARGE."""

    LARGE = "-DMIB=64"

    def build_mixed(self, *flags, compile_with=(SWITCH,), link_with=(SWITCH,), link_flags=()):
        self.build("braid-c++", *compile_with, "-O1", "-g", "-Wall", "-Wextra", "-Werror", *flags, "-c", FOLDER / "mixed.cpp")
        run("gcc-ar", "rcs", "libparts.a", "mixed.o", folder=self.folder)
        self.build("braid-cc", *compile_with, "-O1", "-g", "-Wall", "-Wextra", "-Werror", *flags, "-c", FOLDER / "mixed.c")
        self.build("braid-cc", *link_with, *flags, "mixed.o", "-L.", "-lparts", "-o", "mixed", *link_flags)

    def is_right(self, clusters, compute, *options):
        done = self.live(clusters, compute, "--heap-mib", 192, *options, "./mixed")
        self.assertEqual(done.stdout, f"[c0] globals of {clusters * compute} nodes: 0 wrong, 3 made, 21\n")
        self.assertNotIn("wrong:", done.stderr)
        self.assertEqual(done.stderr.count("destroyed"), 1)

    def test_every_kind_of_global(self):
        self.build_mixed()
        for clusters, compute, *options in ((1, 2), (2, 2, "--protection", "mprotect", "--protocol", "lazy"),
                                            (4, 1), (2, 1, "--page-bytes", "16384")):
            with self.subTest(clusters=clusters, options=options):
                self.is_right(clusters, compute, *options)

    ALIGNED = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
static long number = 40, list[3] = {1, 2, 3};
static char wide[3] __attribute__((aligned(BYTES)));
static long zeros[1000], sum __attribute__((aligned(BYTES)));
static long initialised[] __attribute__((aligned(DATA_BYTES))) = {5};
static void* work(void* at) {
  const long i = (long)at;
  wide[i] = (char)(10 * list[i]);
  __atomic_fetch_add(&sum, wide[i] + zeros[i] + initialised[0], __ATOMIC_SEQ_CST);
  return 0;
}
int main(void) {
  pthread_t thread[3];
  for (long i = 0; i < 3; ++i) pthread_create(&thread[i], 0, work, (void*)i);
  for (int i = 0; i < 3; ++i) pthread_join(thread[i], 0);
  printf("%ld %d\n", sum + number, (int)((uintptr_t)wide % BYTES + (uintptr_t)&sum % BYTES + (uintptr_t)initialised % DATA_BYTES));
}
"""

    def test_variables_aligned_to_more_than_a_page(self):
        for of_bss, of_data, flags, options in ((8192, 8, (), ()), (65536, 65536, ("-no-pie", "-fno-pie"), ()),
                                                (2097152, 8, (), ("--page-bytes", "16384")), (8, 2097152, (), ())):
            with self.subTest(of_bss=of_bss, of_data=of_data):
                self.program(self.ALIGNED, f"-DBYTES={of_bss}", f"-DDATA_BYTES={of_data}", *flags, switch="--pthreads")
                self.assertEqual(self.live(3, 1, *options, "./a").stdout, "[c0] 115 0\n")
        self.program(self.ALIGNED, "-DBYTES=65536", "-DDATA_BYTES=8", "--simulated", switch="--pthreads")
        self.assertEqual(self.simulated(4, 1, "./a").stdout, "115 0\n")

    SECTIONS = r"""
#include <pthread.h>
#include <stdio.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long counter[2] __attribute__((section("counters"))) = {40, 60};
static long zeros __attribute__((section(".noinit")));
static long apart __attribute__((section("far-away"), aligned(65536))) = 5;
extern long __start_counters[], __stop_counters[];
static void* work(void* at) {
  pthread_mutex_lock(&lock);
  for (long* c = __start_counters; c != __stop_counters; ++c) ++*c;
  ++zeros;
  ++apart;
  pthread_mutex_unlock(&lock);
  return at;
}
int main(void) {
  pthread_t thread[3];
  for (long i = 0; i < 3; ++i) pthread_create(&thread[i], 0, work, 0);
  for (int i = 0; i < 3; ++i) pthread_join(thread[i], 0);
  printf("%ld %ld %ld %ld\n", counter[0], counter[1], zeros, apart);
}
"""

    def test_sections_that_the_program_has_named(self):
        for flags, braid in (((), self.live), (("-flto", "-O2"), self.live), (("--simulated",), self.simulated)):
            with self.subTest(flags=flags):
                self.program(self.SECTIONS, *flags, switch="--pthreads")
                self.assertIn("43 63 3 8\n", braid(4, 1, "./a").stdout)

    def test_named_sections_of_archives(self):
        (self.folder / "part.c").write_text('long part __attribute__((section("parts"))) = 7;\n')
        self.build("braid-cc", SWITCH, "-c", "part.c")
        run("gcc-ar", "rcs", "libpart.a", "part.o", folder=self.folder)
        self.program("""
#include "dsm/braid_dsm.h"
#include <stdio.h>
extern long part;
static void work(braid_node* node, void* unused) {
  (void)unused;
  if (braid_node_id(node) == 1) part = 8;
  braid_barrier(node, 0);
  if (braid_node_id(node) == 0) printf("%ld\\n", part);
}
int main(void) {
  braid_start_clusters();
  braid_init();
  braid_parallel(work, 0);
  return braid_finish(0);
}
""", "-Wl,-u,part", "-L.", "-lpart")
        self.assertEqual(self.live(2, 1, "./a").stdout, "[c0] 8\n")

    def test_large_globals(self):
        self.build_mixed(self.LARGE)
        self.is_right(2, 1)
        # Alone it needs no other process.
        env = {"BRAID_HEAP_MIB": "192"}
        alone = subprocess.run([self.folder / "mixed"], env=env, capture_output=True, text=True, timeout=60, check=True)
        self.assertEqual(alone.stdout, "globals of 1 nodes: 0 wrong, 3 made, 21\n")
        small = self.live(2, 1, "--heap-mib", 128, "./mixed", expect=70)
        self.assertIn("the program's shared globals take 129 MiB, and the shared heap of 128 MiB has no room for more behind "
                      "them: raise BRAID_HEAP_MIB", small.stderr)

    def test_every_kind_of_global_in_simulation(self):
        switches = (SWITCH, "--simulated")
        self.build_mixed(self.LARGE, compile_with=switches, link_with=switches)
        for clusters, compute, protocol, page_bytes in ((1, 2, "eager", 4096), (2, 2, "lazy", 8192)):
            with self.subTest(clusters=clusters, compute=compute, protocol=protocol):
                done = self.simulated(clusters, compute, "--heap-mib", 192, "--protocol", protocol, "--page-bytes", page_bytes,
                                      "./mixed")
                self.assertEqual(done.stdout, f"globals of {clusters * compute} nodes: 0 wrong, 3 made, 21\n", done.stderr)
                self.assertEqual(done.stderr.count("destroyed"), 1)
        small = self.simulated(2, 1, "--heap-mib", 128, "./mixed", expect=70)
        self.assertIn("the program's shared globals take 129 MiB, and the shared heap of 128 MiB has no room for more behind "
                      "them: raise --heap-mib", small.stderr)

    def test_every_way_to_link(self):
        for flags, link_flags in ((("-fno-pie", "-fcommon"), ("-no-pie",)), (("-flto",), ("-s",)),
                                  (("-fno-data-sections", "-fPIC"), ("-pie", "-Wl,--gc-sections"))):
            with self.subTest(flags=flags):
                self.build_mixed(*flags, link_flags=link_flags)
                self.is_right(2, 1)

    def test_without_the_switch_globals_are_private(self):
        self.build_mixed(compile_with=(), link_with=())
        done = self.live(2, 1, "--heap-mib", 192, "./mixed", expect=1)
        for kind in ("numbers[0] == 77", "tentative == 78", "hidden == 79", "r + rel + relro == 240", "bad == 0",
                     "S_ISDIR(status.st_mode)", "constructed.value >= 70", "initialised == 7", "fails once"):
            self.assertIn(f"[c0] wrong: {kind}\n", done.stderr)
        self.assertNotIn("optarg", done.stderr)

    def test_installed(self):
        top = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, top)
        run("cmake", "--install", BUILD, "--prefix", top / "first", folder=top)
        (top / "first").rename(top / "second")
        self.bin = top / "second/bin"
        self.build_mixed()
        self.is_right(2, 1)


class OldStyle(Folder):
    @unittest.skipUnless(shutil.which("m4"), "m4 is not installed")
    def test_kernels_whose_globals_are_shared(self):
        for kernel, right in (("heat", "right"), ("render", "0 wrong")):
            run(self.bin / "braid", "parmacs", SWITCH, "-O2", FOLDER / f"{kernel}.C.in", "-o", kernel, folder=self.folder)
            for clusters in (1, 2, 4):
                with self.subTest(kernel=kernel, clusters=clusters):
                    self.assertEqual(self.live(clusters, 1, f"./{kernel}", clusters).stdout,
                                     f"[c0] {kernel} of {clusters} processes: {right}\n")
            run(self.bin / "braid", "parmacs", SWITCH, "--simulated", "-O2", FOLDER / f"{kernel}.C.in", "-o", kernel,
                folder=self.folder)
            for clusters, compute in ((4, 1), (2, 2), (16, 1)):
                with self.subTest(kernel=kernel, clusters=clusters, compute=compute):
                    processes = clusters * compute
                    self.assertEqual(self.simulated(clusters, compute, f"./{kernel}", processes).stdout,
                                     f"{kernel} of {processes} processes: {right}\n")
            run(self.bin / "braid", "parmacs", "-O2", FOLDER / f"{kernel}.C.in", "-o", kernel, folder=self.folder)
            self.assertNotIn(f": {right}", self.live(2, 1, f"./{kernel}", 2).stdout, "without the switch")


class Diagnosis(Folder):
    @unittest.skipUnless(shutil.which("m4"), "m4 is not installed")
    def test_globals_that_clusters_wrote_are_named(self):
        run(self.bin / "braid", "parmacs", "-O1", FOLDER / "copies.C.in", "-o", "copies", folder=self.folder)
        words = [self.bin / "braid", "run", "--compute", "1", "--proxies", "1", "--report", "report.json", "--clusters"]
        done = run(*words, 3, "./copies", "3", folder=self.folder)
        everywhere = ("text", "calls", "sums", "by_all", "grid")
        named = json.loads((self.folder / "report.json").read_text())["globals"]
        self.assertEqual({g["name"]: g["clusters"] for g in named["written_by_several"]},
                         {name: [0, 1, 2] for name in everywhere})
        self.assertEqual(named["written_by_one"], [{"name": "by_one", "clusters": [1]}])
        self.assertIn("braid: several clusters have written a global since the start, each its own copy: text (clusters 0, 1 and 2), ",
                      done.stderr)
        self.assertIn("braid: one cluster alone has written a global since the start, its own copy, which main() does not see: "
                      "by_one (cluster 1); if it should, link with --shared-globals\n", done.stderr)
        alone = run(*words, 1, "./copies", "1", folder=self.folder)
        self.assertNotIn("written a global", alone.stderr)
        run("strip", "copies", folder=self.folder)
        stripped = run(*words, 2, "./copies", "2", folder=self.folder)
        self.assertIn("which globals several clusters have written is not known, for the program is stripped", stripped.stderr)
        run(self.bin / "braid", "parmacs", SWITCH, "-O1", FOLDER / "copies.C.in", "-o", "copies", folder=self.folder)
        shared = run(*words, 2, "./copies", "2", folder=self.folder)
        self.assertNotIn("globals", shared.stderr)
        costly = json.loads((self.folder / "report.json").read_text())["costs"]["memory"]
        self.assertTrue(any(re.fullmatch("global [a-z_]+", memory["allocated"]) for memory in costly), costly)


START = '#include <stdio.h>\n#include <unistd.h>\n#include "dsm/braid_dsm.h"\n'


class Simulated(Folder):
    def test_races_on_globals_are_found(self):
        source = (START + "int before[5000], counter, ordered;\nstatic void work(braid_node* n, void* a) {\n  braid_lock(n, 0);\n"
                  "  ++ordered;\n  braid_unlock(n, 0);\n  RACE\n}\n"
                  "int main(void) { braid_start_clusters(); braid_init(); braid_parallel(work, 0);\n"
                  "  return braid_finish(ordered + counter + before[1]); }\n")
        line = START.count("\n") + 6
        for race, status, text in (("", 2, "no data races"), ("++counter;", 66, f"in work at a.c:{line}\n")):
            self.program(source.replace("RACE", race), "--check-races")
            self.assertIn(text, self.simulated(2, 1, "./a", expect=status).stderr)

    def test_globals_of_compute_nodes_that_share_a_thread(self):
        # The initialiser of one static waits in the machine while other nodes come to others.
        self.program('#include "dsm/braid_dsm.h"\n#include <cstdio>\nint made, wrong;\n'
                     "int make(int v) { ++made; return v; }\n"
                     "void work(braid_node* n, void*) {\n"
                     "  for (int i = 0; i < 20; ++i) {\n"
                     "    static int a = make(1); static int b = make(2); static int c = make(a + b);\n"
                     "    braid_lock(n, 0); wrong += c != 3; braid_unlock(n, 0);\n  }\n}\n"
                     "int main() { braid_start_clusters(); braid_init(); braid_parallel(work, nullptr);\n"
                     '  const int c = braid_cluster(); braid_finish(0); if (c == 0) std::printf("%d %d\\n", made, wrong); }\n',
                     "--simulated", name="a.cpp")
        self.assertEqual(self.simulated(2, 4, "./a").stdout, "3 0\n")

    def test_mains_in_every_cluster_are_refused(self):
        self.program(START + "int x;\nint main(void) { braid_init(); return braid_finish(x); }\n", "--simulated")
        self.assertIn("the program was linked with --shared-globals, but main() runs in every cluster",
                      self.simulated(2, 1, "./a", expect=70).stderr)


class Refusals(Folder):
    def test_main_in_every_cluster(self):
        self.program(START + "int x;\nint main(void) { braid_init(); return braid_finish(0); }\n")
        for clusters in (1, 2):
            wrong = self.live(clusters, 1, "./a", expect=70)
            self.assertIn("the program was linked with --shared-globals, but main() runs in every cluster, and each would change "
                          "the same globals: call start_clusters()", wrong.stderr)

    def test_programs_that_never_start(self):
        self.program('#include <stdio.h>\nint x = 1;\nint main(void) { printf("%d\\n", ++x); return 0; }\n')
        self.assertEqual(run("./a", folder=self.folder).stdout, "2\n")

    def test_options_that_cannot_be(self):
        (self.folder / "a.c").write_text("int x; int main(void) { return x; }\n")
        for words, text in ((["-fuse-ld=gold"], "-fuse-ld=gold: only the GNU linker places them"),
                            (["-Wl,-T,own.ld"], "-Wl,-T,own.ld: a linker script of the program's own"),
                            (["-Town.ld"], "-Town.ld: a linker script"),
                            (["-shared"], "-shared: globals of a program are shared, those of libraries stay private"),
                            (["-fsanitize=thread"], "-fsanitize=thread: its runtime does not know"),
                            (["-static"], "-static: a program of Braid links shared libraries")):
            wrong = self.build("braid-cc", "a.c", *words, SWITCH, expect=2)
            self.assertIn(text, wrong.stderr)
        self.build("braid-cc", "a.c", "-fuse-ld=bfd", SWITCH)

    def test_objects_that_are_linked_to_one_object(self):
        (self.folder / "x.c").write_text("int x = 3;\n")
        (self.folder / "a.c").write_text('#include <stdio.h>\n#include "dsm/braid_dsm.h"\nextern int x;\n'
                                         "static void add(braid_node* node, void* unused) {\n  (void)unused;\n"
                                         "  braid_lock(node, 0);\n  ++x;\n  braid_unlock(node, 0);\n}\n"
                                         "int main(void) {\n  braid_start_clusters();\n  braid_init();\n  braid_parallel(add, 0);\n"
                                         '  if (braid_cluster() == 0) printf("%d\\n", x);\n  return braid_finish(0);\n}\n')
        self.build("braid-cc", "-r", "a.c", "x.c", "-o", "both.o", SWITCH)
        self.build("braid-cc", "both.o", "-o", "a", SWITCH)
        self.assertIn("[c0] 5\n", self.live(2, 1, "./a").stdout)

    def test_a_child_of_fork_is_told_that_it_has_none(self):
        self.program(START + "#include <sys/wait.h>\nint x = 1;\nint main(void) {\n"
                     "  braid_start_clusters(); braid_init();\n  if (braid_cluster() == 0 && fork() == 0) x = 2;\n"
                     "  int status = 0;\n  wait(&status);\n  braid_finish(0);\n"
                     "  if (braid_cluster) printf(\"%d\\n\", WEXITSTATUS(status));\n"
                     "  if (fork() == 0) { x = 3; _exit(0); }\n  wait(NULL);\n  return x - 1;\n}\n")
        done = self.live(2, 1, "./a")
        self.assertIn("[c0] 70\n", done.stdout)
        self.assertIn("[c1] 0\n", done.stdout)
        self.assertIn("a child of fork()", done.stderr)

    def test_a_static_that_comes_to_itself(self):
        self.program('#include <unistd.h>\n#include "dsm/braid_dsm.h"\nint f(int n);\nint g(int n) { return f(n); }\n'
                     "int f(int n) { static int x = g(n); return x; }\n"
                     "int main() { braid_start_clusters(); braid_init();\n"
                     "  braid_parallel([](braid_node* n, void*) { f((int)braid_node_id(n)); }, nullptr);\n"
                     "  return braid_finish(0); }\n", name="a.cpp")
        wrong = self.live(2, 1, "./a", expect=70)
        self.assertIn("a function-local static variable is initialised by a function that comes to the same variable", wrong.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
