#!/usr/bin/env python3
"""Programs with ANL macros: built by `braid parmacs` or by a makefile of their own, and run live and simulated on several
clusters.

    parmacs_test.py BIN FOLDER [unittest arguments]      FOLDER: the programs
"""

import json
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


def simulated(clusters, compute, *program, folder, options=(), expect=0):
    """Returns (report, output, errors) of `braid sim`."""
    report = folder / "report.json"
    done = run(BIN / "braid", "sim", "--quiet", "--report", report, "--clusters", clusters, "--compute", compute, *options,
               *program, folder=folder, expect=expect)
    return json.loads(report.read_text()), done.stdout, done.stderr


def has_plugin():
    return "-fplugin-arg-braid_pthreads-parmacs" in (BIN / "braid-cc").read_text()


class Parmacs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, *words, expect=0, env=None):
        return run(BIN / "braid", "parmacs", *words, folder=self.folder, expect=expect, env=env)


class WithoutM4(Parmacs):
    def test_commands(self):
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

    def test_a_program_that_leans_on_other_macro_files(self):
        self.build("-O2", "-Werror=implicit-function-declaration", FOLDER / "chain.C.in", "-o", "chain")
        self.assertEqual(run("./chain", 1, 60, folder=self.folder).stdout, "60 steps, 0 wrong\nall have ended\n")
        for clusters, compute in ((1, 3), (2, 1), (2, 2), (4, 1)):
            with self.subTest(clusters=clusters, compute=compute):
                done = live(clusters, compute, "./chain", clusters * compute, 60, folder=self.folder)
                self.assertRegex(done.stdout, r"^\[c0\] 60 steps, 0 wrong\n\[c\d\] all have ended\n$", done.stderr)

    def test_processes_wait_for_volatile_variables(self):
        if not has_plugin():
            self.skipTest("this build has no compiler plug-in")
        self.build("-O2", FOLDER / "waits.C.in", "-o", "waits")
        for clusters, compute, protocol in ((1, 2, "eager"), (2, 1, "eager"), (2, 1, "lazy"), (3, 1, "lazy")):
            with self.subTest(clusters=clusters, compute=compute, protocol=protocol):
                processes = clusters * compute
                done = live(clusters, compute, "--protocol", protocol, "./waits", processes, folder=self.folder)
                self.assertEqual(done.stdout, f"[c0] waits of {processes} processes: 0 wrong\n", done.stderr)

    def test_processes_poll_plain_variables_in_loops_that_sleep(self):
        self.build("-O2", "-Wall", "-Werror", FOLDER / "polls.C.in", "-o", "polls")
        self.build("-O2", "--simulated", FOLDER / "polls.C.in", "-o", "polls-simulated")
        self.assertEqual(run("./polls", 1, folder=self.folder).stdout, "polls of 1 processes: 0 wrong\n")
        for protocol in ("eager", "lazy"):
            for clusters, compute in ((1, 2), (2, 1), (3, 1)):
                with self.subTest(clusters=clusters, compute=compute, protocol=protocol):
                    processes = clusters * compute
                    right = f"polls of {processes} processes: 0 wrong\n"
                    done = live(clusters, compute, "--protocol", protocol, "./polls", processes, folder=self.folder)
                    self.assertEqual(done.stdout, "[c0] " + right, done.stderr)
                    _, output, errors = simulated(clusters, compute, "./polls-simulated", processes, folder=self.folder,
                                                  options=("--protocol", protocol))
                    self.assertEqual(output, right, errors)

    def test_create_again_without_wait_for_end(self):
        self.build("-O2", FOLDER / "again.C.in", "-o", "again")
        for clusters, compute, processes, form in ((2, 1, 2, 1), (2, 2, 4, 2), (2, 2, 3, 1), (1, 3, 2, 1)):
            with self.subTest(clusters=clusters, compute=compute, processes=processes, form=form):
                self.assertEqual(live(clusters, compute, "./again", processes, form, folder=self.folder).stdout,
                                 "[c0] 0 wrong\n")

    def test_exit_waits_for_processes_unless_the_program_has_failed(self):
        source = """MAIN_ENV
struct s { LOCKDEC(l) int ended; } *s;
void f(void) { usleep(100000); LOCK(s->l) if (++s->ended == 3) printf("3 ended\\n"); UNLOCK(s->l) }
int main(int c, char** v) { int i; s = (struct s*)G_MALLOC(sizeof *s); LOCKINIT(s->l)
for (i = 0; i < 3; ++i) CREATE(f)
exit(atoi(v[1])); }
"""
        (self.folder / "a.C.in").write_text(source)
        self.build("a.C.in", "-o", "a")
        for clusters in (3, 4):  # with 3, one of them has no compute node: main() runs it
            self.assertRegex(live(clusters, 1, "./a", 0, folder=self.folder).stdout, r"^\[c\d\] 3 ended\n$")
        self.assertIn("exited with status 5 before finish()", live(4, 1, "./a", 5, folder=self.folder, expect=5).stderr)

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
        # Both files define the variable of the header.
        (self.folder / "both.h").write_text("int both;\n")
        (self.folder / "other.c").write_text("int other(void) { return both; }\n")
        (self.folder / "Makefile").write_text("CFLAGS = -include both.h\nrelax: relax.o other.o\n\t$(CC) $^ -o $@ -lm\n"
                                              "relax.c: relax.C\n\tm4 $(MACROS) $< > $@\n")
        run("make", f"CC={BIN / 'braid-cc'} -fcommon", f"MACROS={macros}", "relax", folder=self.folder)
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
        program.write_text("MAIN_ENV\nASKFORDEC(a)\nint main() { return 0; }\n")
        self.assertRegex(self.build(program, expect=65).stderr, "the macro ASKFORDEC is not among those")
        program.write_text("MAIN_ENV\nint main() {\n  ODDITY(1);\n  return 0;\n}\n")
        self.assertIn("ODDITY is no macro of ", self.build(program, expect=1).stderr)
        program.write_text("MAIN_ENV\nstruct s { LOCKDEC(l) BARDEK(b) };\nWIDGET w;\n"
                           "int main() { MAIN_INITEVN(,1) return 0; }\n")
        errors = self.build(program, expect=1).stderr
        for name in ("BARDEK", "WIDGET", "MAIN_INITEVN"):
            self.assertIn(f"{name} is no macro of ", errors)
        program.write_text("MAIN_ENV\nint main() { return 0; }\n")
        (self.folder / "c.m4.null").write_text("define(CREATE, `{;}')\n")
        self.assertIn("c.m4.null is a file of macros for another machine: leave it out",
                      self.build("c.m4.null", program, expect=64).stderr)
        self.assertIn("-m32: a program of Braid has addresses of 64 bits; leave it out", self.build("-m32", program, expect=2).stderr)
        program.write_text("#define PAGE_SIZE 64\nENV\n\nint main() { return x + PAGE_SIZE; }\n")
        self.assertRegex(self.build(program, expect=1).stderr, r"\A[^\n]*\n\S*a\.C\.in:4:\d+: error: .x. undeclared")

    def test_blanks_before_brackets_and_several_names(self):
        self.build(FOLDER / "forms.C.in", "-Werror", "-O2", "-o", "forms")
        for clusters, expected in ((1, "14 45 0 0 1"), (2, "26 45 1 0 1"), (4, "51 45 2 1 1")):
            self.assertEqual(live(clusters, 1, "./forms", clusters, folder=self.folder).stdout, f"[c0] {expected}\n")
        program = self.folder / "older.C.in"
        program.write_text("MAIN_ENV\nstruct s { LOCKDEC(l) } *s;\nvoid f(void) { LOCK (s->l) UNLOCK(s->l) }\nint main(void) {\n"
                           "MAIN_INITENV() s = (struct s*)G_MALLOC(sizeof *s) LOCKINIT(s->l) CREATE (f) WAIT_FOR_END(1) MAIN_END }\n")
        self.build(program, "-ansi", "-pedantic-errors", "-o", "older")
        # A suite's makefile calls m4 itself.
        macros = self.build("--m4-file").stdout.strip()
        for m4 in (["m4", macros], ["m4", "-P", macros]):
            (self.folder / "own.c").write_text(run(*m4, FOLDER / "forms.C.in", folder=self.folder).stdout)
            run(BIN / "braid-cc", "own.c", "-o", "forms", folder=self.folder)
            self.assertEqual(live(2, 1, "./forms", 2, folder=self.folder).stdout, "[c0] 26 45 1 0 1\n")
        program = self.folder / "a.C.in"
        for word in ("MAIN_INITENV (,5)", "MAIN_END ()"):
            program.write_text("MAIN_ENV\nint main() {\n  " + word + ";\n}\n")
            self.assertRegex(self.build(program, expect=65).stderr, r"a\.C\.in:3: MAIN_\w+ \( has a blank before its bracket: leave the blank out")

    def test_forms_of_macros_that_leave_the_number_out(self):
        program = self.folder / "forms.U"
        program.write_text("MAIN_ENV\nstruct s { BARDEC(all) BARDEC(private) int came[4]; } *s;\nBARDEC(alone)\nint P;\n"
                           "void f(void) { int me = braid_parmacs_self(), i, k; for (k = 1; k < 9; k++) { s->came[me] = k; BARRIER(s->all);\n"
                           '  for (i = 0; i < P; i++) if (s->came[i] != k) printf("WRONG\\n"); BARRIER(alone) } }\n'
                           "int main(int argc, char** argv) { int i; P = atoi(argv[1]); MAIN_INITENV()\n"
                           "s = (struct s*)G_MALLOC(sizeof *s)\nBARINIT(s->all, P); BARINIT(alone, P)\n"
                           "if (P > 2) for (i = 1; i < P; i++) CREATE(f)\nelse if (P > 1) CREATE(f)\n"
                           'f(); WAIT_FOR_END()\nprintf("%d\\n", s->came[P - 1]); MAIN_END }\n')
        self.build(program, "-O2", "-o", "forms")
        for clusters, compute in ((1, 1), (1, 3), (2, 2)):
            output = live(clusters, compute, "./forms", clusters * compute, folder=self.folder).stdout
            self.assertEqual(output, "[c0] 8\n")

    def run_wrong(self, body, clusters=2, processes=2, before="", before_all="", fields="", expect=70):
        program = self.folder / "a.C.in"
        program.write_text(f"MAIN_ENV\nstruct s {{ LOCKDEC(l) BARDEC(b) PAUSEDEC(p) {fields} }} *s;\n"
                           f"{before_all}\nvoid f(void) {{ {body} }}\nint main() {{ int i;\n"
                           "s = (struct s*)G_MALLOC(sizeof(struct s)); BARINIT(s->b, 2) PAUSEINIT(s->p)\n"
                           f"{before}\nfor (i = 1; i < {processes}; ++i) CREATE(f)\nf(); WAIT_FOR_END({processes} - 1)\n"
                           "return 0; }\n")
        self.build(program, "-o", "a")
        return live(clusters, 1, "./a", folder=self.folder, expect=expect).stderr

    def test_words_of_c_that_m4_or_monitors_have_too(self):
        program = self.folder / "words.C.in"
        program.write_text("MAIN_ENV\n#include <stdlib.h>\n/* DELAY, CONTINUE: no calls */\nenum { DELAY = 3 };\n"
                           "static int eval(int a, int b) { return a * b; }\nstatic int incr(int a) { return a + 1; }\n"
                           "static int decr(int a) { return a - 1; }\nint main() {\n  char name[] = \"wordsXXXXXX\";\n"
                           '  printf("CONTINUE %d %d\\n", eval(incr(DELAY), decr(DELAY)), mkstemp(name) > 2);\n  return 0;\n}\n')
        self.build(program, "-o", "words")
        self.assertEqual(run("./words", folder=self.folder).stdout, "CONTINUE 8 1\n")

    def test_headers_that_m4_includes(self):
        headers = self.folder / "LOCK"  # a macro's name
        headers.mkdir()
        (headers / "first.H").write_text("include(second.h)\nstruct first { struct second second; LOCKDEC(l) };\n")
        (headers / "second.h.in").write_text("include(third.h)\nstruct second { struct third third[SIZE]; };\n")
        (headers / "third.H").write_text("#include \"fourth.h\"\nstruct third { BARDEC(b) char c; };\n")
        (headers / "fourth.H").write_text("enum { SIZE = 3 };\n")
        (headers / "plain.m").write_text("/* include all */ struct first* first;\n")
        (headers / "main.C").write_text("MAIN_ENV\ninclude(first.h)\ninclude(plain.m)\nint main() {\n"
                                        "  first = (struct first*)G_MALLOC(sizeof *first);\n  LOCKINIT(first->l)\n"
                                        "  return &first->second.third[SIZE].c != (char*)&first->l + ODD;\n}\n")
        # As makefiles of a suite leave them.
        for name in ("first.h", "second.h", "third.h"):
            (self.folder / name).write_text("of other macros\n")
        names = ["LOCK/main.C", "LOCK/first.H", "LOCK/second.h.in", "LOCK/third.H", "LOCK/fourth.H"]
        for order in (names, names[::-1]):
            self.build("-DODD=offsetof(struct third, c)", *order, "-o", "a")
            run("./a", folder=self.folder)
        self.assertIn("LOCK/main.C:7:", self.build(*names, "-o", "a", expect=1).stderr)
        (headers / "main.C").write_text("include(fifth.h)\n")
        errors = self.build(*names, "-o", "a", expect=65).stderr
        self.assertIn("cannot open `fifth.h'", errors)
        self.assertIn("headers that it includes for m4 must be among the words", errors)

    def test_headers_before_main_env_may_declare_objects(self):
        (self.folder / "parts.H").write_text("struct parts { LOCKDEC(l) ALOCKDEC(a, 2) BARDEC(b) GSDEC(g) PAUSEDEC(p) EVENTDEC(e)\n"
                                             "SEMADEC(s) CONDVARDEC(c); int ready; };\nextern struct parts* parts;\n")
        (self.folder / "other.C").write_text('#include "parts.h"\nEXTERN_ENV\nvoid f(void) { LOCK(parts->l) parts->ready = 1;\n'
                                             "CONDVARSIGNAL(parts->c) UNLOCK(parts->l) BARRIER(parts->b, 2) }\n")
        # What the program says of the system's headers before the first of them counts.
        (self.folder / "main.C").write_text("#define _GNU_SOURCE\n#include <string.h>\n#include \"parts.h\"\nMAIN_ENV\n"
                                            "struct parts* parts;\nvoid f(void);\nint main() {\n"
                                            "parts = (struct parts*)G_MALLOC(sizeof *parts)\nLOCKINIT(parts->l) BARINIT(parts->b, 2)\n"
                                            "CONDVARINIT(parts->c)\nCREATE(f)\nLOCK(parts->l)\n"
                                            "while (!parts->ready) CONDVARWAIT(parts->c, parts->l)\n"
                                            'UNLOCK(parts->l) BARRIER(parts->b, 2)\nreturn strchrnul("ready", 0)[0]; }\n')
        words = ("-Werror=implicit-function-declaration", "-o")
        self.build("main.C", "other.C", "parts.H", *words, "a")
        # As makefiles do it.
        macros = self.build("--m4-file").stdout.strip()
        for name in ("main.C", "other.C", "parts.H"):
            (self.folder / (name[:-1] + name[-1].lower())).write_text(run("m4", macros, name, folder=self.folder).stdout)
        run(BIN / "braid-cc", "main.c", "other.c", *words, "b", folder=self.folder)
        for program in ("./a", "./b"):
            live(2, 1, program, folder=self.folder)

    def test_wrong_uses_end_the_run_with_the_reason(self):
        for macro, kind in (("LOCK", "lock"), ("SETPAUSE", "pause"), ("SEMAPOST", "semaphore"), ("CONDVARSIGNAL", "condition variable")):
            self.assertIn(f"{macro} was used on a {kind} that was not initialised",
                          self.run_wrong(f"{macro}(nothing)", before_all=f"braid_parmacs_{kind.split()[0]} nothing;"))
        self.assertIn("BARRIER was used on a barrier that was not initialised",
                      self.run_wrong("BARRIER(s->other, 2)", fields="BARDEC(other)"))
        self.assertIn("BARRIER(b) does not say of how many processes, and its BARINIT did not either: write BARRIER(b, n)",
                      self.run_wrong("BARRIER(s->other)", fields="BARDEC(other)", before="BARINIT(s->other)"))
        self.assertIn("GETSUB was used on a loop that was not initialised",
                      self.run_wrong("long i; GETSUB(s->loop, i, 9, 2)", fields="GSDEC(loop)"))
        self.assertIn("SETPAUSE was used on a variable that is not in shared memory: allocate it by G_MALLOC",
                      self.run_wrong("SETPAUSE(i)", before_all="int i;"))
        self.assertIn("WAITPAUSE waits for ever", self.run_wrong("", fields="char c;", before="WAITPAUSE(s->c)"))
        self.assertRegex(self.run_wrong("UNLOCK(s->l)"), r"unlock.*0x7e9[0-9a-f]{9}")
        self.assertIn("SEMAINIT was called with -1", self.run_wrong("SEMAINIT(s->many, -1)", fields="SEMADEC(many)"))
        cures = ("start the program with as many processes as --clusters times --compute, or call WAIT_FOR_END before it "
                 "creates more")
        self.assertIn(f"CREATE was called 2 times, and 1 are free; {cures}", self.run_wrong("BARRIER(s->b, 2)", processes=3))
        self.assertRegex(self.run_wrong("", processes=4), f"CREATE was called for more processes than there are.*; {cures}")
        self.assertIn("BARRIER was called for 3 processes, and this machine has 2", self.run_wrong("BARRIER(s->b, 3)"))
        self.assertIn("WAITPAUSE waits for ever", self.run_wrong("", before="WAITPAUSE(s->p)"))
        self.assertRegex(self.run_wrong("void* twice = G_MALLOC(20); G_FREE(twice) G_FREE(twice)"),
                         r"G_FREE in f: the block 0x7e9[0-9a-f]{9} is free already; free it once only")
        self.assertRegex(self.run_wrong("char* twice = G_MALLOC(20); free(twice); free(twice);"),
                         r"free\(\) in f: the block 0x7e9[0-9a-f]{9} is free already; free it once only")
        self.assertRegex(self.run_wrong("", before="G_MALLOC(8) s = realloc((char*)s + 8, 9);"),
                         r"realloc\(\): 0x7e9[0-9a-f]{9} is no block that G_MALLOC has returned")
        self.assertRegex(self.run_wrong("int private; G_FREE(&private)"),
                         r"G_FREE in f: 0x[0-9a-f]+ is no block that malloc\(\) of shared memory has returned")
        self.assertRegex(self.run_wrong("if (braid_parmacs_self() == 1) exit(3);", expect=3),
                         r"application of cluster 1 \(pid \d+\) exited with status 3 before finish\(\) in compute node 1")




@unittest.skipUnless(shutil.which("m4"), "m4 is not installed")
class Simulated(Parmacs):
    def build(self, *words, **options):
        return super().build("--simulated", "-O2", *words, **options)

    def test_every_macro(self):
        self.build(*MACROS_PROGRAM, "-o", "macros")
        for clusters, compute, form, protocol in ((1, 1, 1, "eager"), (1, 3, 2, "eager"), (2, 2, 1, "lazy"),
                                                  (4, 1, 2, "eager"), (16, 1, 1, "eager")):
            with self.subTest(clusters=clusters, compute=compute, form=form, protocol=protocol):
                processes = clusters * compute
                _, output, errors = simulated(clusters, compute, "./macros", processes, form, folder=self.folder,
                                              options=("--protocol", protocol))
                self.assertEqual((output, errors), (f"main\nmacros of {processes} processes: 0 wrong\n", ""))

    def test_locks_and_memory(self):
        self.build(FOLDER / "locks.C.in", "-o", "locks")
        self.build(FOLDER / "memory.C.in", "-o", "memory")
        for late in ((), ("guard-late",)):
            self.assertEqual(simulated(2, 2, "./locks", 4, *late, folder=self.folder)[1], "locks of 4 processes: right\n")
        self.assertEqual(simulated(2, 2, "./memory", 4, 5, folder=self.folder, options=("--heap-mib", 16))[1],
                         "memory of 4 processes, seed 5: 0 wrong\n")

    def test_a_program_that_leans_on_other_macro_files(self):
        self.build(FOLDER / "chain.C.in", "-o", "chain")
        for clusters, compute in ((1, 1), (2, 2), (16, 1)):
            with self.subTest(clusters=clusters, compute=compute):
                _, output, errors = simulated(clusters, compute, "./chain", clusters * compute, 60, folder=self.folder)
                self.assertEqual((output, errors), ("60 steps, 0 wrong\nall have ended\n", ""))

    def test_processes_wait_for_volatile_variables(self):
        if not has_plugin():
            self.skipTest("this build has no compiler plug-in")
        self.build(FOLDER / "waits.C.in", "-o", "waits")
        for clusters, compute, protocol in ((1, 3, "eager"), (3, 2, "eager"), (3, 2, "lazy"), (8, 1, "eager")):
            with self.subTest(clusters=clusters, compute=compute, protocol=protocol):
                processes = clusters * compute
                _, output, errors = simulated(clusters, compute, "./waits", processes, folder=self.folder,
                                              options=("--protocol", protocol))
                self.assertEqual((output, errors), (f"waits of {processes} processes: 0 wrong\n", ""))

    def test_kernels_on_many_clusters_compute_what_one_computes(self):
        for name in ("relax", "sort"):
            self.build(FOLDER / f"{name}.C.in", "-o", name, "-lm")
            alone = simulated(1, 1, f"./{name}", 1, folder=self.folder)
            for clusters in (16, 64):
                with self.subTest(name=name, clusters=clusters):
                    report, output, errors = simulated(clusters, 1, f"./{name}", clusters, folder=self.folder)
                    self.assertEqual((output, errors), alone[1:])
                    self.assertGreater(report["messages"]["count"], clusters)
        self.assertEqual(alone[1], "4096 keys, 0 out of order, checksum e7d2aa48\n")

    def test_processes_have_the_nodes_in_the_order_of_create(self):
        functions = "".join(f"void f{i}(void) {{ int me; GET_PID(me) s->node[{i}] = me; }}\n" for i in range(1, 6))
        created = " ".join(f"CREATE(f{i})" for i in range(1, 6))
        (self.folder / "a.C.in").write_text(
            "MAIN_ENV\n#include <stdio.h>\nstruct s { int node[6]; } *s;\n" + functions +
            "int main() { int i; s = (struct s*)G_MALLOC(sizeof *s);\n" + created +
            " WAIT_FOR_END(5) for (i = 0; i < 6; ++i) printf(\"%d\", s->node[i]); MAIN_END }\n")
        self.build("a.C.in", "-o", "a")
        for clusters, compute in ((6, 1), (3, 2), (1, 6)):
            self.assertEqual(simulated(clusters, compute, "./a", folder=self.folder)[1], "012345")

    def test_create_again_without_wait_for_end(self):
        self.build(FOLDER / "again.C.in", "-o", "again")
        for clusters, compute, processes, form in ((2, 1, 2, 1), (4, 1, 4, 2), (2, 2, 3, 1), (1, 3, 2, 1)):
            with self.subTest(clusters=clusters, compute=compute, processes=processes, form=form):
                self.assertEqual(simulated(clusters, compute, "./again", processes, form, folder=self.folder)[1], "0 wrong\n")

    def test_create_again_while_no_process_ends(self):
        (self.folder / "a.C.in").write_text(
            "MAIN_ENV\nstruct s { BARDEC(b) PAUSEDEC(p) } *s;\nvoid f(void) { BARRIER(s->b, 2) WAITPAUSE(s->p) }\n"
            "int main() { s = (struct s*)G_MALLOC(sizeof *s); BARINIT(s->b, 2) PAUSEINIT(s->p)\n"
            "CREATE(f) BARRIER(s->b, 2) CREATE(f) SETPAUSE(s->p) WAIT_FOR_END(2) MAIN_END }\n")
        self.build("a.C.in", "-o", "a")
        self.assertIn("compute node 0 waits for a created process to end, because CREATE found no free compute node: start the "
                      "program with more, or call WAIT_FOR_END first\n",
                      simulated(2, 1, "./a", folder=self.folder, expect=1)[2])

    def test_data_races_are_found(self):
        source = ("MAIN_ENV\nstruct s { LOCKDEC(l) long locked, racing; } *s;\n"
                  "void f(void) {\n  LOCK(s->l)\n  s->locked++;\n  UNLOCK(s->l) FULL_FENCE();\n  RACE\n}\n"
                  "int main() { int i; s = (struct s*)G_MALLOC(sizeof *s); LOCKINIT(s->l)\n"
                  "s->racing = 1; for (i = 1; i < 3; ++i) CREATE(f)\nf(); WAIT_FOR_END(2) return s->locked + s->racing - 4; }\n")
        for body, status, text in (("", 0, "--check-races: no data races in "), ("s->racing++;", 66, " f at a.C.in:7\n")):
            (self.folder / "a.C.in").write_text(source.replace("RACE", body))
            super().build("--check-races", "-O1", "-Werror", "a.C.in", "-o", "a")
            _, _, errors = simulated(3, 1, "./a", folder=self.folder, expect=status)
            self.assertIn(text, errors)
        self.assertIn("that were allocated in main at a.C.in:", errors)
        self.assertRegex(errors, r"last before it: unlocked the lock at 0x[0-9a-f]+ in f at a\.C\.in:6\n")

    def test_runs_are_the_same_again_and_in_strict_order(self):
        self.build(FOLDER / "relax.C.in", "-o", "relax", "-lm")
        words = ("./relax", 4, 16)
        for clusters, compute in ((4, 1), (2, 2)):
            with self.subTest(clusters=clusters, compute=compute):
                first, output, _ = simulated(clusters, compute, *words, folder=self.folder)
                self.assertEqual(output, "relax 16 x 16: right\n")
                if not first["deterministic"]:
                    self.skipTest("the compiler plug-in is not built")
                again, _, _ = simulated(clusters, compute, *words, folder=self.folder)
                strict, _, _ = simulated(clusters, compute, *words, folder=self.folder, options=("--strict",))
                for report in (again, strict):
                    for figure in ("trace_hash", "whole_cycles", "parallel_cycles"):
                        self.assertEqual(report[figure], first[figure])
                self.assertLess(first["hand_overs"], strict["hand_overs"])
                other, _, _ = simulated(clusters, compute, *words, folder=self.folder, options=("--seed", 2))
                self.assertNotEqual(other["trace_hash"], first["trace_hash"])

    def test_main_takes_time_before_there_are_others(self):
        program = self.folder / "a.C.in"
        program.write_text("MAIN_ENV\n#include <stdio.h>\nstruct s { BARDEC(b) unsigned long at[64]; double x; } *s;\n"
                           "void f(void) { int me; GET_PID(me) CLOCK(s->at[me]) BARRIER(s->b, 4) }\n"
                           "int main(int c, char** v) { int i; unsigned long begin, end; s = (struct s*)G_MALLOC(sizeof *s);\n"
                           "BARINIT(s->b, 4) CLOCK(begin)\n"
                           "for (i = 0; i < atoi(v[1]); ++i) s->x = s->x * 0.5 + i;\n"
                           "CLOCK(end) for (i = 1; i < 4; ++i) CREATE(f) f(); WAIT_FOR_END(3)\n"
                           "for (i = 0; i < 4; ++i) if (s->at[i] < end) puts(\"early\");\n"
                           "printf(\"%lu %lu\\n\", end - begin, begin); MAIN_END }\n")
        self.build(program, "-o", "a")
        few, many = (simulated(4, 1, "./a", steps, folder=self.folder) for steps in (10000, 30000))
        if not few[0]["deterministic"]:
            self.skipTest("the compiler plug-in is not built")
        self.assertEqual(few[1].count("early") + many[1].count("early"), 0)
        took = [int(text.split()[0]) for text in (few[1], many[1])]
        self.assertAlmostEqual(took[1], 3 * took[0], delta=0.01 * took[1])
        grown = (many[0]["whole_cycles"] - few[0]["whole_cycles"]) / 20  # microseconds at 20 MHz
        self.assertAlmostEqual(grown, took[1] - took[0], delta=0.02 * grown)
        self.assertAlmostEqual(many[0]["parallel_cycles"], few[0]["parallel_cycles"],
                               delta=0.2 * few[0]["parallel_cycles"])

    FAILING = """MAIN_ENV
#include <signal.h>
#include <string.h>
struct s { BARDEC(b) } *s;
char* how;
void f(void) {
  int me;
  GET_PID(me)
  BARRIER(s->b, 3)
  if (me == 2 && !strcmp(how, "exit")) exit(5);
  if (me == 2 && !strcmp(how, "kill")) raise(SIGKILL);
  if (me == 2 && !strcmp(how, "crash")) *(volatile int*)8 = 1;
  BARRIER(s->b, 3)
}
int main(int argc, char** argv) {
  int i, processes = argc > 2 ? atoi(argv[2]) : 3;
  how = argv[1];
  s = (struct s*)G_MALLOC(sizeof *s);
  BARINIT(s->b, processes)
  if (!strcmp(how, "early-exit")) exit(3);
  if (!strcmp(how, "early-return")) return 0;
  if (!strcmp(how, "early-kill")) raise(SIGKILL);
  for (i = 1; i < processes; ++i) CREATE(f)
  f();
  WAIT_FOR_END(processes - 1)
  if (!strcmp(how, "late-exit")) exit(4);
  return 0;
}
"""

    def test_ends_of_programs(self):
        (self.folder / "a.C.in").write_text(self.FAILING)
        self.build(self.folder / "a.C.in", "-o", "a")

        def errors(*words, expect):
            _, _, text = simulated(3, 1, "./a", *words, folder=self.folder, expect=expect)
            self.assertEqual(run("pgrep", "-f", f"^./a {words[0]}$", folder=self.folder, expect=1).stdout, "")
            return text

        self.assertEqual(errors("early-return", expect=0), "")
        self.assertEqual(errors("late-exit", expect=4), "")
        self.assertRegex(errors("early-exit", expect=3),
                         "the program of cluster 0 exited with status 3 before it had started the other clusters")
        self.assertRegex(errors("early-kill", expect=137),
                         r"the program of cluster 0 was killed by signal 9 \(Killed\) before it had started the other")
        self.assertIn("the program of cluster 2 exited with status 5 in the middle of the run", errors("exit", expect=5))
        self.assertIn("the program of cluster 2 was killed by signal 9 (Killed) in the middle", errors("kill", expect=137))
        crash = errors("crash", expect=139)
        self.assertIn("cluster 2, compute node 2: Segmentation fault at address 0x8", crash)
        self.assertIn("the program of cluster 2 was killed by signal 11", crash)
        self.assertIn("CREATE was called 3 times, and 2 are free", errors("x", "4", expect=70))
        self.assertIn("CREATE was called for more processes than there are", errors("x", "5", expect=70))
        alone = run("./a", "x", folder=self.folder, expect=70).stderr
        self.assertIn("this program was built for simulation: run it with `braid sim`", alone)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
