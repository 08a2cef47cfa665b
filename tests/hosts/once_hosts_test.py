#!/usr/bin/env python3
"""Programs whose main() runs once, on several hosts: what the process of cluster 0 is when the others begin comes to the other hosts. The
hosts are addresses of the loopback network, which needs no right. (ssh_hosts_test.py has hosts with namespaces of their own.)

    once_hosts_test.py BIN [unittest's options]
"""

import shutil
import subprocess
import sys
import unittest

from programs import PTHREADS
from runs import Command, make_folder, may_fix_addresses, node_between

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
TWO, THREE = "127.0.0.1,127.0.0.2", "127.0.0.1:2,127.0.0.2:3,127.0.0.3"

# What main() leaves to the others: initialised and zeroed globals, lists and large blocks of private memory, a mapping, a library's
# state, a signal's handler, a thread-local variable, frames of its stack. Each process counts what it does not find.
PARMACS = r"""
MAIN_ENV
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct cell { struct cell* next; struct cell** up; long value; char* name; };
struct shared { LOCKDEC(lock) BARDEC(bar) long wrong, next; double sum; } *all;
static struct cell* list;
long initialised = 1, zeroed[50000];
static double* large;
static char* mapped;
static __thread long own = 5;
static long* frame;
static volatile int caught;
static void handle(int number) { caught += number; }
static long count;

void work(void) {
  long wrong = 0, n = 0, id, i;
  double sum = 0;
  LOCK(all->lock) id = all->next++; UNLOCK(all->lock)
  for (struct cell* c = list; c; c = c->next, ++n) {
    char name[32];
    sprintf(name, "cell %ld", c->value);
    wrong += strcmp(c->name, name) != 0 || (c->next && c->up != &list + 0 && *c->up != c);
  }
  wrong += n != 1000 || initialised != 7 || zeroed[49999] != 49999 * 3 || own != 6 || *frame != 77;
  wrong += strtol("0x10", 0, 16) != 16 || strcmp(mapped + 5000, "mapped") != 0 || mapped[20000] != 0;
  wrong += strcmp(setlocale(LC_ALL, 0), "C") != 0 || strcmp(getenv("OF_MAIN"), "set by main") != 0;
  char folder[64] = "";
  wrong += getcwd(folder, sizeof folder) == 0 || strcmp(folder, "/usr") != 0;
  raise(SIGUSR1);
  wrong += caught != SIGUSR1;
  for (i = id; i < count; i += NODES) sum += large[i];
  initialised = 7 + id;  /* private from now on */
  LOCK(all->lock) all->wrong += wrong; all->sum += sum; UNLOCK(all->lock)
  BARRIER(all->bar, NODES)
  if (initialised != 7 + id) { LOCK(all->lock) ++all->wrong; UNLOCK(all->lock) }
}

int main(void) {
  long here = 77, i;
  MAIN_INITENV(,1000000)
  all = (struct shared*)G_MALLOC(sizeof *all);
  all->wrong = all->next = 0; all->sum = 0;
  LOCKINIT(all->lock) BARINIT(all->bar, NODES)
  frame = &here;
  own = 6;
  initialised = 7;
  for (i = 0; i < 50000; ++i) zeroed[i] = i * 3;
  struct cell** end = &list;
  for (i = 0; i < 1000; ++i) {
    struct cell* c = malloc(sizeof *c);
    c->next = 0; c->up = end; c->value = i; c->name = malloc(32);
    sprintf(c->name, "cell %ld", i);
    *end = c; end = &c->next;
  }
  count = 1 << 20;
  large = malloc(count * sizeof *large);
  for (i = 0; i < count; ++i) large[i] = (double)(i & 1023);
  mapped = mmap(0, 40000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(mapped + 5000, "mapped");
  mprotect(mapped, 40000, PROT_READ);
  signal(SIGUSR1, handle);
  setenv("OF_MAIN", "set by main", 1);
  if (chdir("/usr") != 0) return 1;
  CREATE(work, NODES)
  WAIT_FOR_END(NODES - 1)
  printf("%ld wrong, sum %.0f of %ld\n", all->wrong, all->sum, all->next);
  MAIN_END
}
"""

# What main() does that cannot go elsewhere, before the first pthread_create().
REFUSED = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "dsm/braid_dsm.h"
static void* sleep_long(void* p) { sleep(100); return p; }
int main(int argc, char** argv) {
  const char* how = argv[1];
  pthread_t t;
  if (!strcmp(how, "descriptor")) open("/etc/passwd", O_RDONLY);
  if (!strcmp(how, "stream")) freopen("/dev/null", "r", stdin);
  if (!strcmp(how, "shared")) mmap(0, 8192, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (!strcmp(how, "thread")) pthread_create(&t, 0, sleep_long, 0);
  if (!strcmp(how, "folder")) { char of[] = "/tmp/XXXXXX"; mkdtemp(of); chdir(of); rmdir(of); }
  if (!strcmp(how, "nothing")) return 0;
  if (!strcmp(how, "status")) return 9;
  unsigned cluster = braid_start_clusters();
  braid_init();
  printf("cluster %u goes on\n", cluster);
  return braid_finish(0);
}
"""


class OnceHosts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = make_folder(cls.addClassCleanup)

    def setUp(self):
        self.braid = Command(BIN)

    def build(self, name, text, compiler, *options):
        source = self.folder / name
        source.write_text(text)
        program = self.folder / name.partition(".")[0]
        subprocess.run([f"{BIN}/{compiler[0]}", *compiler[1:], *options, "-O1", str(source), "-o", str(program)], check=True)
        return str(program)

    def run_on(self, hosts, *program, options=()):
        return self.braid.run("--quiet", "--hosts", hosts, "--compute", "1", *options, *program)

    @unittest.skipUnless(shutil.which("m4"), "m4 is not installed")
    @unittest.skipUnless(may_fix_addresses(), "personality() is refused here")
    def test_a_parmacs_program_has_all_that_main_has_left_to_it(self):
        for hosts, nodes in ((TWO, 2), (THREE, 6)):
            program = self.build(f"once{nodes}.C.in", PARMACS.replace("NODES", str(nodes)), ("braid", "parmacs"))
            for options in ((), ("--send",), ("--security", "off")):
                with self.subTest(hosts=hosts, options=options):
                    run = self.run_on(hosts, program, options=options)
                    total = 1024 * sum(range(1024))
                    self.assertEqual((run.returncode, run.stdout), (0, f"[c0] 0 wrong, sum {total} of {nodes}\n"), run.stderr)

    @unittest.skipUnless(may_fix_addresses(), "personality() is refused here")
    def test_a_pthread_program(self):
        program = self.build("threads.c", PTHREADS, ("braid-cc", "--pthreads"))
        for hosts in (TWO, THREE):
            with self.subTest(hosts):
                run = self.run_on(hosts, program)
                self.assertEqual((run.returncode, run.stdout), (0, "[c0] 0 wrong, total right\n"), run.stderr)

    @unittest.skipUnless(may_fix_addresses(), "personality() is refused here")
    def test_what_cannot_go_is_named(self):
        program = self.build("refused.c", REFUSED, ("braid-cc",), "-pthread")
        for how, words in (("descriptor", "(/etc/passwd) is open when the other clusters start"),
                           ("stream", "main() has replaced descriptor 0 by /dev/null"),
                           ("shared", "is a shared mapping (of /dev/zero (deleted))"),
                           ("thread", "the program has 2 threads"),
                           ("folder", "the working folder is gone when the other clusters start")):
            with self.subTest(how):
                run = self.run_on(TWO, program, how)
                self.assertEqual((run.returncode, run.stdout), (70, ""), run.stderr)
                self.assertIn(words, run.stderr)
                # On one host it is no matter.
                if how != "thread":
                    here = self.braid.run("--quiet", "--clusters", "2", "--compute", "1", program, how)
                    self.assertEqual((here.returncode, sorted(here.stdout.splitlines())),
                                     (0, ["[c0] cluster 0 goes on", "[c1] cluster 1 goes on"]), here.stderr)

    @unittest.skipUnless(may_fix_addresses(), "personality() is refused here")
    def test_hosts_with_different_builds_are_refused_before_main_starts_them(self):
        ours = self.build("build1.c", REFUSED, ("braid-cc",), "-pthread")
        self.build("build2.c", REFUSED.replace("goes on", "went on"), ("braid-cc",), "-pthread")
        # The second host that begins is told of the other file.
        node = node_between(self.folder / "node", BIN, f"""\
try:
    os.close(os.open("{self.folder}/first", os.O_CREAT | os.O_EXCL))
except FileExistsError:
    begin = begin.replace(b"/build1", b"/build2")""")
        run = self.run_on(TWO, ours, "nothing", options=("--braid-node", node))
        self.assertEqual((run.returncode, run.stdout), (70, ""), run.stderr)
        self.assertRegex(run.stderr, r"cannot go on with its process: 'the program, of build (\w{16})' there, 'the program, of build (?!\1)\w{16}' here")

    def test_a_container_that_refuses_personality_is_named(self):
        program = self.build("contained.c", REFUSED, ("braid-cc",), "-pthread")
        refuses = self.build("refuses.c", "#include <errno.h>\nint personality(unsigned long p) { errno = EPERM; return -1; }\n", ("braid-cc",),
                             "-shared", "-fPIC")
        run = self.run_on(TWO, program, "nothing", options=("-x", f"LD_PRELOAD={refuses}"))
        self.assertEqual((run.returncode, run.stdout), (70, ""), run.stderr)
        self.assertIn("personality() is refused here: Operation not permitted", run.stderr)

    @unittest.skipUnless(may_fix_addresses(), "personality() is refused here")
    def test_a_main_that_ends_before_the_others_begin_ends_the_run(self):
        program = self.build("early.c", REFUSED, ("braid-cc",), "-pthread")
        for how, status in (("nothing", 0), ("status", 9)):
            with self.subTest(how):
                run = self.run_on(THREE, program, how)
                self.assertEqual((run.returncode, run.stdout), (status, ""), run.stderr)


if __name__ == "__main__":
    unittest.main()
