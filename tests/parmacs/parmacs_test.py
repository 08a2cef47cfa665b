#!/usr/bin/env python3
"""Programs with ANL macros: built by `braid parmacs` or by a makefile of their own, and run live on several clusters.

    parmacs_test.py BIN FOLDER [unittest arguments]      FOLDER: the programs
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1]).resolve()
FOLDER = pathlib.Path(sys.argv[2]).resolve()
MACROS_PROGRAM = [FOLDER / name for name in ("macros.C.in", "macros.H.in", "alone.C.in")]


def run(*words, folder, expect=0, env=None):
    done = subprocess.run([str(w) for w in words], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
                          env=env)
    if done.returncode != expect:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def live(clusters, compute, *program, folder, expect=0):
    return run(BIN / "braid", "run", "--quiet", "--clusters", clusters, "--compute", compute, "--proxies", "1", *program,
               folder=folder, expect=expect)


class Parmacs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, *words, expect=0, env=None):
        return run(BIN / "braid", "parmacs", *words, folder=self.folder, expect=expect, env=env)

    def test_commands_without_m4(self):
        wrong = self.build("--simulated", "a.C.in", expect=64)
        self.assertIn("main() runs once in such programs, and in simulation it runs in every cluster", wrong.stderr)
        self.assertIn("there is no source file", self.build(expect=64).stderr)
        self.assertIn("braid parmacs FILE.C.in", self.build("--help").stdout)
        self.assertTrue(pathlib.Path(self.build("--m4-file").stdout.strip()).is_file())
        shell = {**os.environ, "PATH": str(self.folder)}
        for tool in ("sh", "dirname", "basename", "cat"):
            (self.folder / tool).symlink_to(shutil.which(tool))
        self.assertIn("m4 is not installed: apt-get install m4", self.build("a.C.in", expect=69, env=shell).stderr)


@unittest.skipUnless(shutil.which("m4"), "m4 is not installed")
class WithM4(Parmacs):
    def test_every_macro_on_one_cluster_and_several(self):
        self.build("-O2", *MACROS_PROGRAM, "-o", "macros")
        self.assertEqual(sorted(os.listdir(self.folder)), ["macros"])
        self.assertEqual(run("./macros", "1", folder=self.folder).stdout, "main\nmacros of 1 processes: 0 wrong\n")
        for clusters, compute, form in ((1, 3, 2), (2, 1, 1), (2, 2, 2), (4, 1, 1)):
            with self.subTest(clusters=clusters, compute=compute, form=form):
                processes = clusters * compute
                done = live(clusters, compute, "./macros", processes, form, folder=self.folder)
                self.assertEqual(done.stdout, f"[c0] main\n[c0] macros of {processes} processes: 0 wrong\n", done.stderr)

    def test_more_locks_than_the_machine_has(self):
        self.build("-O2", FOLDER / "locks.C.in", "-o", "locks")
        for clusters, compute in ((1, 1), (1, 3), (2, 1), (2, 2), (4, 1)):
            for late in ((), ("guard-late",)):
                with self.subTest(clusters=clusters, compute=compute, late=late):
                    processes = clusters * compute
                    done = live(clusters, compute, "./locks", processes, *late, folder=self.folder)
                    self.assertEqual(done.stdout, f"[c0] locks of {processes} processes: right\n", done.stderr)

    def test_memory_is_given_back(self):
        self.build("-O2", FOLDER / "memory.C.in", "-o", "memory")
        for clusters, compute, seed in ((1, 3, 1), (2, 1, 2), (2, 2, 3)):
            with self.subTest(clusters=clusters, compute=compute, seed=seed):
                processes = clusters * compute
                done = live(clusters, compute, "--heap-mib", 16, "./memory", processes, seed, folder=self.folder)
                self.assertEqual(done.stdout, f"[c0] memory of {processes} processes, seed {seed}: 0 wrong\n",
                                 done.stderr)

    def test_a_kernel_in_the_old_style_through_its_own_makefile(self):
        macros = self.build("--m4-file").stdout.strip()
        shutil.copy(FOLDER / "relax.C.in", self.folder / "relax.C")
        (self.folder / "Makefile").write_text("relax: relax.o\n\t$(CC) $^ -o $@ -lm\n"
                                              "relax.c: relax.C\n\tm4 $(MACROS) $< > $@\n")
        run("make", f"CC={BIN / 'braid-cc'}", f"MACROS={macros}", "relax", folder=self.folder)
        self.assertEqual(run("./relax", folder=self.folder).stdout, "relax 64 x 64: right\n")
        for clusters in (1, 2, 4):
            self.assertEqual(live(clusters, 1, "./relax", clusters, folder=self.folder).stdout,
                             "[c0] relax 64 x 64: right\n")
        # The prefix of m4 -P.
        prefixed = run("m4", "-P", macros, "relax.C", folder=self.folder).stdout
        self.assertEqual(prefixed.split("*/", 1)[1], (self.folder / "relax.c").read_text().split("*/", 1)[1])

    def test_wrong_programs_are_refused_with_the_reason(self):
        self.assertIn("none.C.in cannot be read", self.build("none.C.in", expect=66).stderr)
        self.assertIn("there is no source file", self.build(FOLDER / "macros.H.in", expect=64).stderr)
        program = self.folder / "a.C.in"
        program.write_text("MAIN_ENV\nint main() {\n  MENTER(1)\n  return 0;\n}\n")
        self.assertRegex(self.build(program, expect=65).stderr, "the macro MENTER is not among those")
        program.write_text("MAIN_ENV\nint main() {\n  ODDITY(1);\n  return 0;\n}\n")
        self.assertIn("ODDITY is no macro of ", self.build(program, expect=1).stderr)
        program.write_text("MAIN_ENV\n\nint main() { return x; }\n")
        self.assertRegex(self.build(program, expect=1).stderr, r"a\.C\.in:3:\d+: error: .x. undeclared")

    def run_wrong(self, body, clusters=2, processes=2, before="", fields="", expect=70):
        program = self.folder / "a.C.in"
        program.write_text(f"MAIN_ENV\nstruct s {{ LOCKDEC(l) BARDEC(b) PAUSEDEC(p) {fields} }} *s;\n"
                           f"void f(void) {{ {body} }}\nint main() {{ int i;\n"
                           "s = (struct s*)G_MALLOC(sizeof(struct s)); BARINIT(s->b, 2) PAUSEINIT(s->p)\n"
                           f"{before}\nfor (i = 1; i < {processes}; ++i) CREATE(f)\nf(); WAIT_FOR_END({processes} - 1)\n"
                           "return 0; }\n")
        self.build(program, "-o", "a")
        return live(clusters, 1, "./a", folder=self.folder, expect=expect).stderr

    def test_wrong_uses_end_the_run_with_the_reason(self):
        self.assertIn("LOCK was used on a lock that was not initialised", self.run_wrong("LOCK(s->l)"))
        self.assertIn("UNLOCK was used on a lock that nobody has", self.run_wrong(
            "UNLOCK(s->many[5000])", fields="ALOCKDEC(many, 5001)", before="ALOCKINIT(s->many, 5001)"))
        self.assertIn("the program uses more than 1048576 objects of this kind (lock)", self.run_wrong(
            "", fields="ALOCKDEC(many, 1048577)", before="ALOCKINIT(s->many, 1048577)"))
        self.assertIn("CREATE was called 2 times, and 1 are free", self.run_wrong("BARRIER(s->b, 2)", processes=3))
        self.assertIn("CREATE was called for more processes than there are", self.run_wrong("", processes=4))
        self.assertIn("BARRIER was called for 3 processes, and this machine has 2", self.run_wrong("BARRIER(s->b, 3)"))
        self.assertIn("WAITPAUSE waits for ever", self.run_wrong("", before="WAITPAUSE(s->p)"))
        self.assertRegex(self.run_wrong("void* twice = G_MALLOC(20); G_FREE(twice) G_FREE(twice)"),
                         r"G_FREE\(0x7e9[0-9a-f]{9}\): this block is free already; free it once only")
        self.assertRegex(self.run_wrong("if (braid_parmacs_self() == 1) exit(3);", expect=3),
                         r"application of cluster 1 \(pid \d+\) exited with status 3 before finish\(\) in compute node 1")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
