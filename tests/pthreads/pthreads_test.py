#!/usr/bin/env python3
"""pthread programs: built unchanged by `braid-cc --pthreads` and by the plain compiler, run alone and on several clusters,
and compared.

    pthreads_test.py BIN FOLDER [unittest arguments]      FOLDER: the programs
"""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1]).resolve()
FOLDER = pathlib.Path(sys.argv[2]).resolve()
PLUGIN = BIN.parent / "lib" / "braid_pthreads.so"


def run(*words, folder, expect=0, env=None):
    done = subprocess.run([str(w) for w in words], cwd=folder, capture_output=True, text=True, timeout=120, check=False,
                          env=env)
    if done.returncode != expect:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def live(clusters, *program, folder, expect=0, options=()):
    return run(BIN / "braid", "run", "--quiet", "--clusters", clusters, "--proxies", "1", *options, *program, folder=folder,
               expect=expect)


def without_prefix(text):
    return "".join(line.split("] ", 1)[1] for line in text.splitlines(keepends=True))


class Pthreads(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compare(self, name, *arguments, clusters=(1, 2, 4)):
        """Through a makefile of the program's own: objects first, then the program."""
        source, *_ = FOLDER.glob(f"{name}.c*")
        shutil.copy(source, self.folder)
        (self.folder / "Makefile").write_text(f"{name}: {name}.o\n\t$({'CXX' if source.suffix == '.cpp' else 'CC'}) "
                                              "$(CFLAGS) $^ -o $@ -lm\n")
        flags = "-O2 -g -std=c++20" if source.suffix == ".cpp" else "-O2 -g"
        run("make", "CC=gcc", "CXX=g++", f"CFLAGS={flags} -pthread", f"CXXFLAGS={flags} -pthread", folder=self.folder)
        expected = run(f"./{name}", *arguments, folder=self.folder).stdout
        run("make", "-B", f"CC={BIN / 'braid-cc'}", f"CXX={BIN / 'braid-c++'}", f"CFLAGS={flags} --pthreads",
            f"CXXFLAGS={flags} --pthreads", folder=self.folder)
        self.assertEqual(run(f"./{name}", *arguments, folder=self.folder).stdout, expected)
        for count in clusters:
            with self.subTest(clusters=count):
                done = live(count, f"./{name}", *arguments, folder=self.folder)
                self.assertEqual(without_prefix(done.stdout), expected, done.stderr)
        return expected

    def test_every_call_that_waits(self):
        self.assertEqual(self.compare("calls"), "calls: 0 wrong\n")
        for options in (("--protocol", "lazy"), ("--compute", "2"), ("--protection", "mprotect"), ("--page-bytes", "16384")):
            with self.subTest(options=options):
                done = live(2, "./calls", folder=self.folder, options=options)
                self.assertEqual(done.stdout, "[c0] calls: 0 wrong\n", done.stderr)

    @unittest.skipUnless(PLUGIN.exists(), "the compiler plug-in is not built")
    def test_thread_local_variables_are_shared_by_address(self):
        self.assertTrue(self.compare("thread_variables", clusters=(1, 2, 4, 8)).endswith("800 19, 0 wrong\n"))
        for options in (("--protocol", "lazy"), ("--protection", "mprotect")):
            with self.subTest(options=options):
                done = live(4, "./thread_variables", folder=self.folder, options=options)
                self.assertTrue(done.stdout.endswith("800 19, 0 wrong\n"), done.stdout + done.stderr)

    def test_calls_that_do_not_wait_or_give_up_and_atomics(self):
        self.assertEqual(self.compare("tries"), "tries: 0 wrong\n")

    def test_answers_to_wrong_arguments_and_at_limits_are_those_of_the_c_library(self):
        for flags in (("-DTRIES",), ()):
            run("gcc", "-O2", "-w", "-pthread", *flags, FOLDER / "answers.c", "-o", "answers", folder=self.folder)
            expected = sorted(run("./answers", folder=self.folder).stdout.splitlines())
            (self.folder / "b").mkdir(exist_ok=True)
            run(BIN / "braid-cc", "--pthreads", "-O2", "-w", *flags, FOLDER / "answers.c", "-o", "b/answers", folder=self.folder)
            for clusters in (1, 2, 4):
                with self.subTest(flags=flags, clusters=clusters):
                    done = live(clusters, "b/answers", folder=self.folder, options=("--label", "stderr"))
                    self.assertEqual(sorted(done.stdout.splitlines()), expected, done.stderr)
        done = live(2, "b/answers", "sizes", folder=self.folder, options=("--label", "stderr"))
        # The last five with 2 MiB for those that ask for nothing.
        self.assertEqual(done.stdout.split(), "8192 64 1024 1024 8192 2048 64 2048 2048 2048".split(), done.stderr)

    def test_threads_are_cancelled_at_their_next_cancellation_point(self):
        expected = "cancels: 0 wrong\nmain() was cancelled, 0 wrong\n"
        self.assertEqual(self.compare("cancels", "main"), expected)
        for options in (("--protocol", "lazy"), ("--compute", "1"), ("--protection", "mprotect")):
            with self.subTest(options=options):
                done = live(3, "./cancels", "main", folder=self.folder, options=options)
                self.assertEqual(without_prefix(done.stdout), expected, done.stderr)

    def test_threads_are_cancelled_in_calls_of_the_system(self):
        self.assertEqual(self.compare("cancel_calls"), "cancelled calls: 0 wrong\n")

    def test_threads_are_cancelled_at_once(self):
        self.assertEqual(self.compare("cancels_at_once", clusters=(1, 3)), "cancels at once: 0 wrong\n")
        done = live(2, "./cancels_at_once", folder=self.folder, options=("--protection", "mprotect", "--compute", "1"))
        self.assertEqual(done.stdout, "[c0] cancels at once: 0 wrong\n", done.stderr)

    def test_threads_of_cxx_are_cancelled(self):
        self.assertEqual(self.compare("cancels_cxx"), "cancels of C++: 0 wrong\nmain() has ended, 0 wrong\n")

    def test_threads_of_c11(self):
        self.assertEqual(self.compare("c11"), "c11: 0 wrong\n")

    def test_keys_that_come_and_go_and_semaphores_with_names(self):
        self.assertEqual(self.compare("names"), "names: 0 wrong\n")

    def test_mutexes_and_conditions_in_any_number_and_anywhere(self):
        self.assertEqual(self.compare("objects"), "objects: 0 wrong\n")

    def test_threads_wait_for_volatile_variables(self):
        if not PLUGIN.exists():
            self.skipTest("this build has no compiler plug-in")
        self.assertEqual(self.compare("volatiles", clusters=(2, 3)), "volatiles: 24 counted, 0 wrong\n")
        done = live(3, "./volatiles", folder=self.folder, options=("--protocol", "lazy", "--compute", "2"))
        self.assertEqual(done.stdout, "[c0] volatiles: 24 counted, 0 wrong\n", done.stderr)

    def test_threads_wait_for_plain_variables_in_loops_that_sleep(self):
        self.assertEqual(self.compare("sleeps"), "sleeps: 0 wrong\n")
        done = live(3, "./sleeps", folder=self.folder, options=("--protocol", "lazy", "--compute", "2"))
        self.assertEqual(done.stdout, "[c0] sleeps: 0 wrong\n", done.stderr)
        done = live(2, "./sleeps", "results", folder=self.folder, options=("--compute", "1"))
        self.assertEqual(done.stdout, "[c0] results: 0 wrong\n", done.stderr)

    def test_the_report_names_the_global_and_the_allocation_that_a_lock_is(self):
        loop = "for (int i = 0; i < 300; ++i) {{ pthread_mutex_lock({0}); ++number; usleep(100); pthread_mutex_unlock({0}); }}"
        for lock, begin, kind, place in (("&table[3]", "", "global", "table"),
                                         ("heap", "heap = calloc(1, 4096);", "allocation", "main at a.c")):
            with self.subTest(kind=kind):
                self.run_thread(loop.format(lock), f"{begin} pthread_create(&other, 0, f, 0);", after="pthread_join(other, 0);",
                                before="static pthread_mutex_t table[9], *heap; static pthread_t other;")
                report = self.folder / "report.json"
                live(2, "./a", folder=self.folder, options=("--report", report, "--compute", "1"))
                locks = [lock for cluster in json.loads(report.read_text())["clusters"]
                         for lock in cluster["application"]["report"]["costly_locks"]]
                owners = [lock["allocated"] for lock in locks if lock["allocated"]]
                self.assertTrue(any(o["kind"] == kind and place in o["place"] for o in owners), locks)

    def test_putenv_of_memory_that_threads_share(self):
        (self.folder / "a.c").write_text("""#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void* f(void* none) { printf("%s %s %s\\n", getenv("FIRST"), getenv("SECOND"), getenv("THIRD")); return none; }
int main(void) {
  pthread_t thread;
  char stack[16] = "FIRST=stack";
  putenv(stack);
  putenv(strdup("SECOND=heap"));
  putenv("THIRD=text");
  pthread_create(&thread, NULL, f, NULL);
  return pthread_join(thread, NULL);
}
""")
        run(BIN / "braid-cc", "--pthreads", "-O1", "a.c", "-o", "a", folder=self.folder)
        self.assertEqual(run("./a", folder=self.folder).stdout, "stack heap text\n")
        done = live(2, "./a", folder=self.folder)
        self.assertRegex(done.stdout, r"^\[c\d\] stack heap text\n$", done.stderr)

    def test_exit_does_not_wait_for_streams_that_a_thread_has_locked(self):
        self.build("""#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_barrier_t begun;
static void* f(void* unused) {
  FILE* file = fopen("file", "w");
  flockfile(stdout);
  flockfile(file);
  fputs("of the file\\n", file);
  fputs("of the thread\\n", stdout);
  pthread_barrier_wait(&begun);
  for (;;) pause();
}
int main(void) {
  pthread_t thread;
  pthread_barrier_init(&begun, NULL, 2);
  pthread_create(&thread, NULL, f, NULL);
  pthread_barrier_wait(&begun);
  exit(0);
}
""")
        for clusters, compute in ((1, 2), (2, 1)):
            with self.subTest(clusters=clusters):
                done = live(clusters, "./a", folder=self.folder, options=("--compute", compute))
                self.assertRegex(done.stdout, r"^\[c\d\] of the thread\n$", done.stderr)
                self.assertEqual((self.folder / "file").read_text(), "of the file\n")
                (self.folder / "file").unlink()

    def test_what_the_c_library_allocates_is_used_and_freed_in_another_cluster(self):
        (self.folder / "files").mkdir()
        for name in ("b", "a", "c.txt"):
            (self.folder / "files" / name).touch()
        self.build("""#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static struct addrinfo* addresses;
static struct dirent** entries;
static char* path;
static int count, missing, unknown;
static int is_visible(const struct dirent* entry) { return entry->d_name[0] != '.'; }
static void* f(void* unused) {
  struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_CANONNAME, .ai_socktype = SOCK_STREAM};
  struct addrinfo* none = NULL;
  struct dirent** no_entries = NULL;
  if (getaddrinfo("127.0.0.5", "80", &hints, &addresses) != 0) addresses = NULL;
  unknown = getaddrinfo("not a number", "80", &hints, &none);
  count = scandir("files", &entries, is_visible, alphasort);
  missing = scandir("none", &no_entries, NULL, NULL);
  path = canonicalize_file_name("files/../files/a");
  return unused;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, f, NULL);
  pthread_join(thread, NULL);
  const struct sockaddr_in* address = (const struct sockaddr_in*)addresses->ai_addr;
  printf("%s %d %s", inet_ntoa(address->sin_addr), ntohs(address->sin_port), addresses->ai_canonname);
  freeaddrinfo(addresses);
  for (int i = 0; i < count; ++i) printf(" %s", entries[i]->d_name), free(entries[i]);
  free(entries);
  printf(" %d %d %s\\n", missing, unknown == EAI_NONAME, strrchr(path, '/'));
  free(path);
  return 0;
}
""")
        expected = "127.0.0.5 80 127.0.0.5 a b c.txt -1 1 /a\n"
        self.assertEqual(run("./a", folder=self.folder).stdout, expected)
        for clusters in (1, 2):
            with self.subTest(clusters=clusters):
                done = live(clusters, "./a", folder=self.folder, options=("--compute", "2" if clusters == 1 else "1"))
                self.assertEqual(done.stdout, f"[c0] {expected}", done.stderr)

    def test_memory_of_the_c_library_is_used_and_freed_in_another_cluster(self):
        self.assertEqual(self.compare("memory"), "memory: 0 wrong\n")
        for options in (("--protocol", "lazy"), ("--compute", "1")):
            with self.subTest(options=options):
                done = live(3, "./memory", folder=self.folder, options=options)
                self.assertEqual(done.stdout, "[c0] memory: 0 wrong\n", done.stderr)

    def test_another_program_in_the_place_of_a_process_is_refused(self):
        calls = {"execl": 'execl("/bin/true", "true", (char*)0)', "execlp": 'execlp("true", "true", (char*)0)',
                 "execle": 'execle("/bin/true", "true", (char*)0, environ)', "execv": 'execv("/bin/true", words)',
                 "execvp": 'execvp("true", words)', "execve": 'execve("/bin/true", words, environ)',
                 "execvpe": 'execvpe("true", words, environ)', "fexecve": 'fexecve(0, words, environ)'}
        declared = "#include <sys/wait.h>\n#include <spawn.h>\nextern char** environ; static char* words[] = {\"sh\", \"-c\", \"exit 7\", 0};"
        for name, call in calls.items():
            with self.subTest(name=name):
                done = self.run_thread(call + ";", before=declared, expect=70, clusters=2)
                self.assertIn(f"braid: {name}() in f at a.c:", done.stderr)
                self.assertIn("is not available with --pthreads: the process is one of several of the run; use posix_spawn()", done.stderr)
        # Before the first pthread_create() they do what they say, and so they do in children.
        done = self.run_thread("", main='if (fork() == 0) execle("/bin/sh", "sh", "-c", "exit $CODE", (char*)0, (char*[]){"CODE=5", 0});'
                               ' int status; wait(&status); number = WEXITSTATUS(status);', before=declared,
                               after='if (vfork() == 0) { execl("/bin/sh", "sh", "-c", "exit 7", (char*)0); _exit(1); } wait(&status);'
                               ' printf("%d %d\\n", number, WEXITSTATUS(status));', clusters=2)
        self.assertEqual(without_prefix(done.stdout), "5 7\n")

    def test_what_children_of_fork_would_share_is_refused(self):
        declared = ("#include <sys/wait.h>\n#include <sys/mman.h>\n#include <fcntl.h>\nstruct s { pthread_mutex_t mutex; sem_t semaphore; int number; };\n"
                    "static struct s* map(int file) { return mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0), file, 0); }\n"
                    "static int made_file(void) { int file = open(\"file\", O_RDWR | O_CREAT, 0600); return ftruncate(file, 4096) ? -1 : file; }\n"
                    "static int ended(void) { int status = 0; wait(&status); return WEXITSTATUS(status); }\n")
        shown = 'printf("%d\\n", number);'
        in_file = "struct s* s = map(made_file()); sem_init(&s->semaphore, 1, 1); pthread_mutex_init(&s->mutex, 0);"
        for call, main, message in (
                ("memory", "struct s* s = map(-1); if (fork() == 0) { s->number = 1; _exit(0); } number = ended();",
                 "braid: a child of fork() uses memory from mmap() with MAP_SHARED and MAP_ANONYMOUS, "),
                ("pthread_create()", "if (fork() == 0) { pthread_create(&name, 0, f, 0); _exit(0); } number = ended();",
                 "braid: pthread_create() in a child of fork() in main at a.c:"),
                ("pthread_mutex_lock()", in_file + "if (fork() == 0) { pthread_mutex_lock(&s->mutex); _exit(0); } number = ended();",
                 "braid: pthread_mutex_lock() in main at a.c:"),
                ("sem_wait()", in_file + "if (fork() == 0) { sem_wait(&s->semaphore); _exit(0); } number = ended();",
                 "braid: sem_wait() in main at a.c:")):
            with self.subTest(call=call):
                done = self.run_thread("", main, before=declared, after=shown)
                self.assertIn(message, done.stderr)
                self.assertEqual(done.stdout, "[c0] 70\n", done.stderr)
        # What is not shared by its locks, is mapped no more, or is used by no child.
        done = self.run_thread("", "struct s* s = map(made_file()); struct s* gone = map(-1); munmap(gone, 4096); char* block = malloc(4096);"
                               " if (fork() == 0) { block[4095] = 1; s->number = 5; pthread_mutex_lock(&m); _exit(block[4095] + 6); }"
                               " number = ended() + s->number; munmap(s, 4096);", before=declared, after=shown, options=("--compute", "1"))
        self.assertEqual(done.stdout, "[c0] 12\n", done.stderr)
        done = self.run_thread("", "if (daemon(1, 1) != 0) return 1;", expect=70)
        self.assertRegex(done.stderr, r"braid: daemon\(\) in main at a.c:\d+ is not available with --pthreads: the run ends with the process")

    def test_semaphores_and_segments_of_the_system_are_refused_on_several_clusters(self):
        before = ("#include <sys/sem.h>\n#include <sys/shm.h>\nstatic int* attach(void) { int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);\n"
                  "int* at = shmat(id, 0, 0); shmctl(id, IPC_RMID, 0); return at; }\n"
                  "static void up(void) { int set = semget(IPC_PRIVATE, 1, 0600); struct sembuf one = {0, 1, 0}; number += semop(set, &one, 1) == 0; semctl(set, 0, IPC_RMID); }\n"
                  "static void timed(void) { int set = semget(IPC_PRIVATE, 1, 0600); struct sembuf one = {0, 1, 0}; struct timespec t = {1, 0};\n"
                  "number += semtimedop(set, &one, 1, &t) == 0; semctl(set, 0, IPC_RMID); }\n")
        calls = "up(); timed(); *attach() = ++number;"
        done = self.run_thread("", calls, before=before, after=calls + ' printf("%d\\n", number);', clusters=1)
        self.assertEqual(done.stdout, "[c0] 6\n", done.stderr)
        for after, message in (("up();", r"semop\(\)"), ("timed();", r"semtimedop\(\)"), ("attach();", r"shmat\(\) after the first pthread_create\(\)")):
            with self.subTest(after=after):
                done = self.run_thread("", calls, before=before, after=after, expect=70)
                self.assertRegex(done.stderr, rf"braid: {message} in \w+ at a.c:\d+ is not available with --pthreads: ")

    def test_threads_of_constructors_are_refused_with_the_place(self):
        done = self.run_thread("", before="__attribute__((constructor)) static void early(void) { pthread_t t; pthread_create(&t, 0, (void* (*)(void*))strdup, \"\"); }", expect=70)
        self.assertRegex(done.stderr, r"braid: pthread_create\(\) before main\(\) in early at a.c:\d+ is not available with --pthreads: a constructor of a global")

    def test_memory_behind_the_data_is_refused_on_several_clusters(self):
        own = "static int* take(void) { int* at = sbrk(4096); *at = 5; return at; }\n"
        done = self.run_thread("number += *take();", "number = *take();", before=own,
                               after='printf("%d %d\\n", number + *take(), sbrk(0) != 0);', clusters=1)
        self.assertEqual(done.stdout, "[c0] 15 1\n", done.stderr)
        for body, main in (("", "number = *take();"), ("number = *take();", ""), ("number = brk((char*)sbrk(0) + 4096);", "")):
            with self.subTest(body=body):
                done = self.run_thread(body, main, before=own, expect=70)
                self.assertRegex(done.stderr, r"braid: s?brk\(\) in \w+ at a.c:\d+ is not available with --pthreads: .* use malloc\(\)")

    def test_a_thread_of_a_shared_library_that_calls_the_program_is_named_with_its_place(self):
        (self.folder / "library.c").write_text(
            "#include <pthread.h>\nstatic void* run(void* f) { ((void (*)(void))f)(); return f; }\n"
            "void call(void (*f)(void)) { pthread_t t; pthread_create(&t, 0, run, f); pthread_join(t, 0); }\n")
        run("gcc", "-shared", "-fPIC", "-pthread", "library.c", "-o", "liblibrary.so", folder=self.folder)
        self.build("#include <pthread.h>\nvoid call(void (*)(void)); static pthread_mutex_t m; static int n;\n"
                   "static void* f(void* p) { return p; }\nstatic void add(void) { pthread_mutex_lock(&m); ++n; pthread_mutex_unlock(&m); }\n"
                   "int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0); call(add); return n; }\n",
                   "-L.", "-llibrary", "-Wl,-rpath,.")
        self.assertRegex(live(2, "./a", folder=self.folder, expect=70).stderr,
                         r"pthread_mutex_lock\(\) in add at a.c:4 was called by a thread that pthread_create\(\) of this program has not made: .*archive")

    def test_functions_and_variables_of_the_program_that_have_names_of_calls_are_its_own(self):
        (self.folder / "main.c").write_text("""#include <pthread.h>
int printf(const char*, ...);
int getline(char* line, int room);
int select(const int* of, int count, int rank);
double regcomp(double x);
void signal(int* semaphore);
int remove(int x), glob(void);
extern int sleep, name;  // no call has the second one's
static int values[5] = {5, 3, 1, 4, 2}, semaphore;
static void* f(void* p) {
  char line[4];
  signal(&semaphore);
  printf("%d %d %.1f %d %d %d\\n", getline(line, 4), select(values, 5, 2), regcomp(3), remove(4), glob(), sleep++ + name);
  return p;
}
int main(void) {
  pthread_t thread;
  pthread_create(&thread, 0, f, 0);
  pthread_join(thread, 0);
  f(0);
  printf("%d\\n", semaphore);
  return 0;
}
""")
        (self.folder / "own.c").write_text(
            "int getline(char* line, int room) { line[0] = 0; return room; }\nint select(const int* of, int count, int rank) { return of[rank] * count; }\n"
            "double regcomp(double x) { return x / 2; }\nvoid signal(int* semaphore) { ++*semaphore; }\nint remove(int x) { return -x; }\n"
            "int glob(void) { return 8; }\nint sleep = 77, name;\n")
        for flags in ((), ("-flto", "-s")):
            with self.subTest(flags=flags):
                run(BIN / "braid-cc", "--pthreads", "-w", "-O1", *flags, "main.c", "own.c", "-o", "a", folder=self.folder)
                done = live(2, "./a", folder=self.folder, options=("--label", "stderr", "--compute", "1"))
                self.assertEqual(done.stdout, "4 5 1.5 -4 8 77\n4 5 1.5 -4 8 78\n2\n", done.stderr)
        # Those that the runtime calls itself are refused.
        (self.folder / "own.c").write_text("int poll(int x) { return x; }\n")
        (self.folder / "main.c").write_text("int poll(int x);\nint main(void) { return poll(3); }\n")
        done = run(BIN / "braid-cc", "--pthreads", "-w", "main.c", "own.c", "-o", "a", folder=self.folder, expect=2)
        self.assertIn("the program has a function 'poll' of its own", done.stderr)
        self.assertFalse((self.folder / "a").exists())

    def test_a_thread_for_each_processor_which_are_the_runs(self):
        self.build((FOLDER / "processors.c").read_text())
        for clusters, compute in ((1, 1), (2, 1), (2, 2), (3, 20)):
            with self.subTest(clusters=clusters, compute=compute):
                done = live(clusters, "./a", folder=self.folder, options=("--compute", compute))
                self.assertEqual(done.stdout, f"[c0] processors: {clusters * compute}, 0 wrong\n", done.stderr)

    def test_the_cxx_library(self):
        self.assertEqual(self.compare("cxx"), "cxx: 0 wrong\n")

    def test_a_thread_that_cannot_be_joined_is_an_exception(self):
        (self.folder / "a.cpp").write_text(
            "#include <cstdio>\n#include <system_error>\n#include <thread>\nint main() { std::thread none; for (int i = 0; i < 2; ++i) {\n"
            "try { if (i) none.detach(); else none.join(); } catch (const std::system_error& e) { std::printf(\"%d\\n\", e.code().value()); }\n"
            "std::thread([] {}).join(); } }\n")
        run(BIN / "braid-c++", "--pthreads", "a.cpp", "-o", "a", folder=self.folder)
        self.assertEqual(live(2, "./a", folder=self.folder).stdout, "[c0] 22\n" * 2)

    def test_cxx_that_the_c_compiler_links_and_an_operator_new_of_the_program(self):
        (self.folder / "a.cpp").write_text(
            "#include <cstdio>\n#include <cstdlib>\n#include <new>\n#include <string>\n#include <thread>\n#include <vector>\n"
            "#ifdef OWN\nvoid* operator new(std::size_t n) { if (void* p = std::malloc(n)) return p; throw std::bad_alloc(); }\n"
            "void operator delete(void* p) noexcept { std::free(p); }\n#endif\nstruct alignas(128) Line { char c[128]; };\n"
            "int main() { std::string text[3]; std::vector<std::thread> t;\n"
            "for (int i = 0; i < 3; ++i) t.emplace_back([&, i] { text[i] = std::string(90, 'a' + i); delete new Line; });\n"
            'for (auto& x : t) x.join(); std::printf("%s\\n", (text[0] + text[1] + text[2]).substr(88, 94).c_str()); }\n')
        for words in ((), ("-DOWN",)):
            with self.subTest(words=words):
                run(BIN / "braid-cc", "--pthreads", "-std=c++17", *words, "a.cpp", "-lstdc++", "-o", "a", folder=self.folder)
                done = live(3, "./a", folder=self.folder, options=("--compute", "1", "--report", self.folder / "report.json"))
                self.assertEqual(done.stdout, "[c0] aa" + 90 * "b" + "cc\n", done.stderr)

    def test_names_of_the_working_folder_are_shared_memory(self):
        done = self.run_thread("names[0] = getcwd(NULL, 0); names[1] = get_current_dir_name();", before="static char* names[2];",
                               after="for (int i = 0; i < 2; ++i) { puts(names[i]); free(names[i]); }", options=("--compute", "1"))
        self.assertEqual(without_prefix(done.stdout), f"{self.folder.resolve()}\n" * 2)

    def test_the_working_folder_is_that_of_all_clusters(self):
        """Two threads of other clusters change it; main() and the other see it."""
        (self.folder / "sub").mkdir()
        body = ('if (!number) { if (chdir("sub") || chdir("none") != -1 || errno != ENOENT) ++number; pthread_barrier_wait(&b); pthread_barrier_wait(&b); }'
                " else { pthread_barrier_wait(&b); names[0] = getcwd(0, 0); if (fchdir(top)) ++number; pthread_barrier_wait(&b); }")
        done = self.run_thread(body.replace("!number", "p"), 'top = open(".", O_RDONLY); pthread_barrier_init(&b, 0, 2); pthread_create(&name, 0, f, &b);'
                               ' pthread_detach(name);', before="#include <errno.h>\n#include <fcntl.h>\nstatic int top; static char* names[1];"
                               " static pthread_barrier_t b;", after='printf("%d\\n", number); puts(names[0]); puts(getcwd(0, 0));',
                               clusters=3, options=("--compute", "1"))
        here = self.folder.resolve()
        self.assertEqual(without_prefix(done.stdout), f"0\n{here}/sub\n{here}\n")

    def test_globals_are_shared_where_the_linker_leaves_sections_out(self):
        self.build("#include <pthread.h>\n#include <stdio.h>\nint number; static void* f(void* p) { ++number; return p; }\n"
                   "int main(void) { pthread_t t; pthread_create(&t, 0, f, 0); pthread_join(t, 0);"
                   ' printf("%d\\n", number); return 0; }\n', "-ffunction-sections", "-Wl,--gc-sections")
        self.assertEqual(live(2, "./a", folder=self.folder, options=("--compute", "1")).stdout, "[c0] 1\n")

    def test_kernels(self):
        self.assertIn("1500 nodes, 1500 inserted", self.compare("tree", 4, clusters=(1, 2, 4)))
        self.assertIn("0 out of order", self.compare("queue", 5, clusters=(1, 2, 4)))
        self.assertIn("rows: sum", self.compare("rows", 4, clusters=(1, 2, 4)))

    def build(self, text, *words, expect=0):
        (self.folder / "a.c").write_text(text)
        return run(BIN / "braid-cc", "--pthreads", "-g", "a.c", "-o", "a", *words, folder=self.folder, expect=expect)

    def run_thread(self, body, main="", expect=0, clusters=2, before="", after="", options=()):
        self.build("#define _GNU_SOURCE\n#include <pthread.h>\n#include <semaphore.h>\n#include <signal.h>\n"
                   "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <threads.h>\n#include <unistd.h>\n"
                   "static pthread_t name; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n"
                   f"static pthread_cond_t c = PTHREAD_COND_INITIALIZER; static int number;\n{before}\n"
                   f"static void* f(void* p) {{ (void)p; {body}\n return 0; }}\n"
                   f"int main(void) {{ {main}\n pthread_create(&name, 0, f, 0); pthread_join(name, 0); {after}\n return 0; }}\n")
        return live(clusters, "./a", folder=self.folder, expect=expect, options=options)

    def test_the_place_of_a_mutex_that_was_destroyed_while_locked_serves_another(self):
        done = self.run_thread("pthread_mutex_init(&m, 0); pthread_mutex_lock(&m); ++number; pthread_mutex_destroy(&m);", after=
                               "for (int i = 0; i < 2; ++i) { pthread_mutex_init(&m, 0); pthread_mutex_lock(&m); pthread_mutex_destroy(&m);"
                               " pthread_create(&name, 0, f, 0); pthread_join(name, 0); } pthread_mutex_init(&m, 0); pthread_mutex_lock(&m);"
                               ' printf("%d\\n", number);')
        self.assertEqual(done.stdout, "[c0] 3\n")

    def test_threads_of_all_clusters_read_one_input(self):
        reads = ("static char lines[5][40]; static int count;\n"
                 "static void* next(void* p) {{ if (!fgets(lines[count++], 40, stdin)) count = -9; return p; }}\n"
                 "int main(void) {{ {before} for (int i = 0; i < 3; i++) {{ pthread_t t; pthread_create(&t, 0, next, 0);\n"
                 "pthread_join(t, 0); }} next(0); for (int i = 0; i < count; i++) fputs(lines[i], stdout); return 0; }}\n")
        lines = self.folder / "lines"
        lines.write_text("".join(f"line {i}\n" for i in range(9)))
        for before, through_pipe in (("next(0);", False), ("", True), ("next(0);", True)):
            with self.subTest(before, through_pipe=through_pipe):
                self.build("#include <pthread.h>\n#include <stdio.h>\n" + reads.format(before=before))
                with open(lines, encoding="utf-8") as file:
                    done = subprocess.run([BIN / "braid", "run", "--quiet", "--clusters", "3", "--compute", "1", "./a"], cwd=self.folder,
                                          capture_output=True, text=True, timeout=120, check=True,
                                          **({"input": file.read()} if through_pipe else {"stdin": file}))
                self.assertEqual(without_prefix(done.stdout), "".join(f"line {i}\n" for i in range(5 if before else 4)))

    def test_threads_of_all_clusters_use_streams_that_main_has_opened(self):
        """Nothing is kept back in one cluster: neither lines to write nor what was read ahead."""
        done = self.run_thread(
            "char text[20]; for (int i = 0; i < 5; ++i) { pthread_mutex_lock(&m); if (fgets(text, 20, in)) fprintf(out, \"thread %s\", text);"
            " pthread_mutex_unlock(&m); }",
            'out = fopen("out", "w+"); for (int i = 0; i < 12; ++i) fprintf(out, "%d\\n", i); fclose(out);'
            ' in = fopen("out", "r"); out = fopen("copy", "w"); char text[20]; fputs(fgets(text, 20, in), out);',
            before="static FILE *in, *out;",
            after='for (int i = 0; i < 2; ++i) fprintf(out, "main %s", fgets(text, 20, in));'
                  ' pthread_create(&name, 0, f, 0); pthread_join(name, 0); fprintf(out, "end\\n"); fclose(out);'
                  ' out = fopen("copy", "r"); while (fgets(text, 20, out)) fputs(text, stdout); fclose(out); fclose(in);',
            options=("--compute", "1"))
        self.assertEqual(without_prefix(done.stdout), "0\n" + "".join(f"{'main' if i in (6, 7) else 'thread'} {i}\n" for i in range(1, 12)) + "end\n")

    def test_handlers_of_signals_that_come_at_any_time_use_globals(self):
        """A timer interrupts the start of the machine, calls that wait, and the program's own code."""
        ticks = ("static volatile int ticks; static struct sigaction act, was; static struct itimerval often = {{0, 300}, {0, 300}};\n"
                 "static void tick(int s) { if (s == SIGALRM) ++ticks; }")
        done = self.run_thread(
            "for (int i = 0; i < 300; ++i) { pthread_mutex_lock(&m); ++number; pthread_mutex_unlock(&m); }"
            " int waited = 0; for (; waited < 200; ++waited) usleep(1000);",
            "act.sa_handler = tick; act.sa_flags = SA_RESTART; sigaction(SIGALRM, &act, 0); signal(SIGUSR1, SIG_IGN);"
            " setitimer(ITIMER_REAL, &often, 0);",
            before="#include <sys/time.h>\n" + ticks,
            after="const int joined = ticks; for (int i = 0; i < 300; ++i) { pthread_mutex_lock(&m); ++number; pthread_mutex_unlock(&m); }"
                  " while (ticks < joined + 20) ; sigaction(SIGALRM, 0, &was); const int before = ticks; raise(SIGALRM);"
                  ' printf("%d %d %d %d\\n", number, joined > 50, was.sa_handler == tick && signal(SIGUSR1, tick) == SIG_IGN,'
                  " ticks > before);", options=("--compute", "1"))
        self.assertEqual(done.stdout, "[c0] 600 1 1 1\n")

    def test_threads_of_all_clusters_use_streams_that_one_of_them_has_opened(self):
        self.assertEqual(self.compare("streams"), "streams: 0 wrong\n")
        self.assertEqual(live(3, "./streams", folder=self.folder, options=("--compute", "1")).stdout, "[c0] streams: 0 wrong\n")
        done = self.run_thread('late = fopen("late", "w");', before="static FILE* late;", after="fileno(late);", expect=70,
                               options=("--compute", "1"))
        self.assertRegex(done.stderr, r"fileno\(\) of a stream that a thread of another cluster has opened in main at a.c:\d+ is not "
                                      "available with --pthreads: a descriptor is of one process")

    def test_a_thread_begins_with_the_mask_of_signals_of_the_one_that_has_created_it(self):
        """Also where that one has changed it since the clusters were started, and in another cluster than the first."""
        mask = "sigset_t set; sigemptyset(&set); sigaddset(&set, %s); pthread_sigmask(SIG_BLOCK, &set, 0);"
        done = self.run_thread("sigset_t now; pthread_sigmask(SIG_BLOCK, 0, &now); masks[number++] = sigismember(&now, SIGUSR1) + 2 * sigismember(&now, SIGHUP);"
                               " if (!p) { " + mask % "SIGHUP" + " pthread_create(&next, 0, f, &set); pthread_join(next, 0); }",
                               "pthread_create(&next, 0, f, &next); pthread_join(next, 0); " + mask % "SIGUSR1",
                               before="static pthread_t next; static int masks[3];", after='printf("%d %d %d\\n", masks[0], masks[1], masks[2]);',
                               clusters=3, options=("--compute", "1"))
        self.assertEqual(without_prefix(done.stdout), "0 1 3\n")

    def test_a_handler_that_interrupts_a_wait_is_that_threads(self):
        before = ("#include <errno.h>\nstatic sem_t begun, told; static void take(int s) { (void)s; %s sem_post(&told); }")
        begin = "sem_init(&begun, 0, 0); sem_init(&told, 0, 0); signal(SIGUSR1, take); pthread_create(&name, 0, f, 0); sem_wait(&begun); usleep(50000);" \
                " pthread_kill(name, SIGUSR1); pthread_join(name, 0); if (number == 1) "
        wait = "sem_post(&begun); while (sem_wait(&told)) if (errno != EINTR) abort();"
        done = self.run_thread(wait, begin + '{ puts("its own"); exit(0); } exit(5);', options=("--compute", "1"),
                               before=before % "number += pthread_equal(pthread_self(), name);")
        self.assertEqual(done.stdout, "[c0] its own\n")
        done = self.run_thread(wait, begin + "exit(5);", options=("--compute", "1"), expect=70, before=before % "pthread_exit(0);")
        self.assertIn("pthread_exit() in a handler of a signal that has interrupted a call that waits in take at a.c", done.stderr)

    def test_a_handler_that_interrupts_a_wait_has_the_threads_process(self):
        done = self.run_thread("where = getpid(); sem_post(&begun); while (sem_wait(&told)) ;",
                               "sem_init(&begun, 0, 0); sem_init(&told, 0, 0); signal(SIGUSR1, take); pthread_create(&name, 0, f, 0); sem_wait(&begun);"
                               ' usleep(50000); pthread_kill(name, SIGUSR1); pthread_join(name, 0); printf("%d\\n", number); exit(0);',
                               before="static sem_t begun, told; static volatile int where;\n"
                               "static void take(int s) { number += s == SIGUSR1 && getpid() == where; sem_post(&told); }",
                               options=("--compute", "1"))
        self.assertEqual(done.stdout, "[c0] 1\n")

    def test_signals_for_threads_of_other_clusters(self):
        """Two wait for one with sigwait(), and one in a read that a handler interrupts."""
        self.build(
            "#include <errno.h>\n#include <pthread.h>\n#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n"
            "static int got[3], ends[2], caught; static sigset_t set; static void handler(int s) { caught = s; }\n"
            "static void* f(void* p) { sigwait(&set, p); return p; }\n"
            "static void* g(void* p) { char c; got[2] = read(ends[0], &c, 1) < 0 ? errno : 0; return p; }\n"
            "int main(void) { struct sigaction a = {.sa_handler = handler}; pthread_t t[3]; sigemptyset(&set); sigaddset(&set, SIGUSR2);\n"
            "pthread_sigmask(SIG_BLOCK, &set, 0); sigaction(SIGUSR1, &a, 0); if (pipe(ends)) return 1;\n"
            "for (int i = 0; i < 3; ++i) pthread_create(&t[i], 0, i < 2 ? f : g, &got[i]);\n"
            'printf("%d %d\\n", pthread_kill(t[0], 0), pthread_kill(t[0], 99) == EINVAL);\n'
            "for (int i = 0; i < 2; ++i) { pthread_kill(t[i], SIGUSR2); pthread_join(t[i], 0); }\n"
            "do { pthread_kill(t[2], SIGUSR1); usleep(20000); } while (pthread_tryjoin_np(t[2], 0));\n"
            'printf("%d %d %d\\n", got[0] == SIGUSR2, got[1] == SIGUSR2, got[2] == EINTR && caught == SIGUSR1); return 0; }\n', "-D_GNU_SOURCE")
        for clusters in (1, 2, 4):
            with self.subTest(clusters=clusters):
                self.assertEqual(live(clusters, "./a", folder=self.folder, options=("--compute", "1")).stdout, "[c0] 0 1\n[c0] 1 1 1\n")

    def test_threads_of_all_clusters_use_descriptors_that_one_of_them_has_opened(self):
        self.assertEqual(self.compare("descriptors"), "descriptors: 0 wrong\n")
        for protocol in ("eager", "lazy"):
            done = live(3, "./descriptors", folder=self.folder, options=("--compute", "1", "--protocol", protocol))
            self.assertEqual(done.stdout, "[c0] descriptors: 0 wrong\n")

    def test_a_call_that_is_made_in_the_descriptors_cluster_alone_is_named(self):
        before = ("#define _GNU_SOURCE\n#include <errno.h>\n#include <fcntl.h>\n#include <sys/uio.h>\n"
                  "static int in = -1; static void* g(void* p) { return p; }")
        main = 'pthread_create(&name, 0, g, 0); pthread_join(name, 0); in = open("a.c", O_RDONLY);'
        call = "char byte; struct iovec part = {&byte, 1}; if (preadv2(in, &part, 1, 0, 0) == -1 && errno == EBADF) number = 1;"
        done = self.run_thread(call, main, before=before, expect=70, options=("--compute", "1"))
        self.assertRegex(done.stderr, r"preadv2\(\) in f at a.c:\d+: descriptor \d+ is one of cluster 0, where a thread has opened it: open it before")
        done = self.run_thread(call, main + " close(in);", before=before, options=("--compute", "1"), after='printf("%d\\n", number);')
        self.assertEqual(done.stdout, "[c0] 1\n")

    def test_no_cluster_opens_a_descriptor_of_the_number_of_anothers(self):
        before = "#include <fcntl.h>\n#include <sys/stat.h>\nstatic int in = -1, own = -1; static void* g(void* p) { return p; }"
        main = 'pthread_create(&name, 0, g, 0); pthread_join(name, 0); for (int i = 0; i < 20; ++i) in = open("a.c", O_RDONLY);'
        # With one of that number this read the file that its own cluster has opened.
        call = ('char byte = 1; for (int i = 0; i < 40; ++i) own = open("/dev/zero", O_RDONLY | O_CLOEXEC);'
                'if (read(own, &byte, 1) != 1 || byte != 0 || fcntl(own, F_GETFD) != FD_CLOEXEC) number = 1;'
                "if (read(in, &byte, 1) != 1 || byte != '#') number = 2;")
        done = self.run_thread(call, main, before=before, options=("--compute", "1"), after='printf("%d\\n", number);')
        self.assertEqual(done.stdout, "[c0] 0\n")
        # Each is used where it was opened, and closed there; standard input stays.
        call = ('int ends[2]; char name[] = "/tmp/braid-XXXXXX", c = 0; own = open("/dev/zero", O_RDONLY);'
                'if (pipe(ends) != 0 || write(ends[1], "y", 1) != 1 || read(ends[0], &c, 1) != 1 || c != 121) number = 1;'
                'int made = mkstemp(name); if (made < 0 || write(made, "z", 1) != 1 || unlink(name) != 0) number = 2;'
                'if (close(made) || close(ends[0]) || close(ends[1]) || close(own) || close(own) == 0) number = 3;'
                'close(0); if (open("/dev/null", O_RDONLY) != 0) number = 4;')
        done = self.run_thread(call, main, before=before, options=("--compute", "1"),
                               after='char c; if (read(in, &c, 1) != 1) number = 5; printf("%d\\n", number);')
        self.assertEqual(done.stdout, "[c0] 0\n")

    def test_calls_that_wait_on_a_stack_that_others_write(self):
        self.build((FOLDER / "stack_calls.c").read_text(), "-D_GNU_SOURCE")
        for clusters in (1, 2):
            with self.subTest(clusters=clusters):
                self.assertEqual(live(clusters, "./a", folder=self.folder, options=("--compute", "1")).stdout, "[c0] stack calls: 0 wrong, 20\n")

    def test_waits_for_signals_of_other_threads(self):
        self.build((FOLDER / "signal_waits.c").read_text())
        for clusters in (1, 2, 4):
            with self.subTest(clusters=clusters):
                self.assertEqual(live(clusters, "./a", folder=self.folder, options=("--compute", "1")).stdout, "[c0] signal waits: 0 wrong\n")

    def test_main_comes_from_an_archive(self):
        (self.folder / "m.c").write_text('#include <stdio.h>\nint answer(void);\nint main(void) { printf("%d\\n", answer()); return 0; }\n')
        run(BIN / "braid-cc", "--pthreads", "-c", "m.c", folder=self.folder)
        run("ar", "rcs", "libm0.a", "m.o", folder=self.folder)
        self.build("int answer(void) { return 42; }\n", "-L.", "-lm0")
        self.assertEqual(live(2, "./a", folder=self.folder).stdout, "[c0] 42\n")

    def test_refused_calls_are_named_with_their_place(self):
        for call, why in (("pthread_sigqueue(name, SIGUSR1, (union sigval){0})", "a signal reaches one process"),
                          ("fork()", "stacks and globals are shared memory, which no child has"),
                          ("timer_create(CLOCK_MONOTONIC, &by_thread, &timer)", "the C library calls the function in a thread of its own, .*SIGEV_SIGNAL"),
                          ("mq_notify(0, &by_thread)", "the C library calls the function in a thread of its own, .*SIGEV_SIGNAL"),
                          ("aio_read(0)", "the C library does it by a thread of its own, .*pread")):
            with self.subTest(call=call):
                done = self.run_thread("if (!timer_create(CLOCK_MONOTONIC, 0, &timer)) " + call + ";", expect=70,
                                       before="#include <aio.h>\n#include <mqueue.h>\n#include <time.h>\nstatic timer_t timer;"
                                              " static struct sigevent by_thread = {.sigev_notify = SIGEV_THREAD};")
                self.assertRegex(done.stderr, rf"braid: {call.split('(')[0]}\(\)( with SIGEV_THREAD)? in f at a.c:\d+ is not available with "
                                              rf"--pthreads: {why}")
        (self.folder / "p.cpp").write_text(
            "#include <future>\nint main() { std::promise<int> p; std::thread([&] { p.set_value_at_thread_exit(1); }).join(); }\n")
        run(BIN / "braid-c++", "--pthreads", "p.cpp", "-o", "p", folder=self.folder)
        self.assertRegex(live(2, "./p", folder=self.folder, expect=70).stderr,
                         r"std::promise::set_value_at_thread_exit\(\), .*, in .* is not available with --pthreads: let the thread call set_value")
        (self.folder / "p.cpp").write_text(
            "#include <memory_resource>\n#include <vector>\nint main() { std::pmr::synchronized_pool_resource pool;\n"
            "std::pmr::vector<int> numbers(3, &pool); return numbers[2]; }\n")
        run(BIN / "braid-c++", "--pthreads", "-std=c++17", "p.cpp", "-o", "p", folder=self.folder)
        run("./p", folder=self.folder)
        self.assertRegex(live(2, "./p", folder=self.folder, expect=70).stderr,
                         r"std::pmr::synchronized_pool_resource on several clusters in .* is not available with --pthreads: .*new_delete_resource")
        for word, why in (("-fgnu-tm", "transactions are kept apart by locks of their library"), ("-fopenmp", "OpenMP's threads are its library's own"), ("-fopenacc", "OpenMP's threads are its library's own"),
                          ("-fsplit-stack", "stacks that grow in pieces are not Braid's"),
                          ("-fsanitize=undefined,address", "its runtime replaces malloc()")):
            wrong = self.build("int main(void) { return 0; }\n", word, expect=2)
            self.assertIn(f"{word}: {why}", wrong.stderr)
        wrong = self.build("int main(void) { return 0; }\n", "-shared", "-fPIC", expect=2)
        self.assertIn("braid-cc: --pthreads cannot be used with -shared: ", wrong.stderr)
        self.build("int main(void) { return 0; }\n", "-fopenmp-simd")

    def test_atomics_of_16_bytes_and_of_structures(self):
        # Also where the makefile links the compiler's library of atomics, which knows of one cluster.
        for words in ((), ("-O2", "-mcx16", "-latomic")):
            self.build("#include <pthread.h>\n#include <stdatomic.h>\n#include <stdio.h>\n"
                       "typedef struct { long a, b; } pair; typedef struct { long a[5]; } five;\n"
                       "static _Atomic pair p; static _Atomic five v; static __int128 sum = ((__int128)1 << 64) - 1; static __int128 other;\n"
                       "static void* count(void* none) { for (int i = 0; i < 500; ++i) {\n"
                       "  pair was = atomic_load(&p), is; do is = (pair){was.a + 1, was.b - 1};\n"
                       "  while (!atomic_compare_exchange_weak(&p, &was, is));\n"
                       "  five before = atomic_load(&v), after; do { after = before; ++after.a[0]; --after.a[4]; }\n"
                       "  while (!atomic_compare_exchange_strong(&v, &before, after));\n"
                       "  __atomic_fetch_add(&sum, 1, __ATOMIC_RELAXED); __sync_add_and_fetch(&other, (__int128)1 << 64);\n"
                       "} return none; }\n"
                       "int main(void) { pthread_t names[4]; for (int i = 0; i < 4; ++i) pthread_create(&names[i], 0, count, 0);\n"
                       "  for (int i = 0; i < 4; ++i) pthread_join(names[i], 0);\n"
                       "  pair was = atomic_exchange(&p, ((pair){7, 8})), is = atomic_load(&p); five f = atomic_load(&v); atomic_store(&p, was);\n"
                       '  printf("%ld %ld, %ld %ld, %ld %ld, %ld %ld, %ld\\n", was.a, was.b, is.a, is.b, f.a[0], f.a[4], (long)(sum >> 64),\n'
                       "         (long)sum, (long)(other >> 64)); return 0; }\n", *words)
            expected = "2000 -2000, 7 8, 2000 -2000, 1 1999, 2000\n"
            self.assertEqual(run("./a", folder=self.folder).stdout, expected)
            for clusters in (1, 2, 4):
                self.assertEqual(live(clusters, "./a", folder=self.folder).stdout, "[c0] " + expected)

    def test_atomic_instructions_of_inline_assembly(self):
        if not PLUGIN.exists():
            self.skipTest("this build has no compiler plug-in")
        self.assertEqual(self.compare("assembly", clusters=(1, 3)), "assembly: 800 800 800 800 2400 800 counted, 0 wrong\n")
        done = live(2, "./assembly", folder=self.folder, options=("--protocol", "lazy", "--compute", "2"))
        self.assertEqual(done.stdout, "[c0] assembly: 800 800 800 800 2400 800 counted, 0 wrong\n", done.stderr)
        for _ in range(3):  # a handler seldom comes between
            done = live(2, "./assembly", "signals", folder=self.folder)
            self.assertEqual(done.stdout, "[c0] handlers: right\n", done.stderr)
        # What orders accesses, and what is of registers alone.
        self.build("#include <stdio.h>\nint main(void) { int a = 1, b = 2;\n"
                   '__asm__ volatile("lock; addl $0, 0(%%rsp)" ::: "memory", "cc"); __asm__ volatile("mfence; rep; nop" ::: "memory");\n'
                   '__asm__("xchgl %0, %1" : "+r"(a), "+r"(b)); printf("%d %d\\n", a, b); return 0; }\n')
        self.assertEqual(live(2, "./a", folder=self.folder).stdout, "[c0] 2 1\n")

    def test_inline_assembly_that_may_wait_or_hides_its_address_is_refused_with_its_place(self):
        if not PLUGIN.exists():
            self.skipTest("this build has no compiler plug-in")
        jumps, hidden = "which may jump back,", "of memory that is no operand"
        for code, name, why in ((r'"1:\tLOCK\n\tdecl %0\n\tjs 1b" : "+m"(word) :: "memory"', "lock decl", jumps),
                                (r'"lock btsl $1, %0\n\tjc wait" : "+m"(word) :: "memory"', "lock btsl", jumps),
                                ('"1: xchg%z0 %1, %0; jc 1b" : "=g"(word), "+r"(r)', "xchg%z0", jumps),
                                ('"xchg %0, (%%rcx)" : "+r"(r) : "c"(&word) : "memory"', "xchg", hidden),
                                ('"xchg %0, (%1,%2)" : "+r"(r) : "r"(&word), "r"(0L) : "memory"', "xchg", hidden),
                                ('"lock; incl word(%%rip)" ::: "memory"', "lock incl", hidden),
                                ('"lock; incl %0; lock; incl %1" : "+m"(word), "+m"(other)', "lock incl", hidden)):
            for level in ("-O0", "-O2"):
                with self.subTest(code=code, level=level):
                    wrong = self.build(f"int word, other;\nint main(void) {{ int r = 1;\n__asm__ volatile({code});\nreturn r; }}\n", level,
                                       expect=1)
                    self.assertRegex(wrong.stderr, rf"a.c:3:\d+: error: inline assembly with .{name}., {why} is atomic in one cluster alone")

    def test_wrong_uses_end_the_run_with_the_reason(self):
        for body, main, text in (
                ("pthread_mutex_lock(&m); pthread_mutex_lock(&m);", "", r"in f at a.c:\d+: the calling thread has this mutex already"),
                ("pthread_mutex_unlock(&m);", "pthread_mutex_lock(&m);",
                 r"in f at a.c:\d+: another thread than the calling one has this mutex: let a semaphore stand for one"),
                ("", "pthread_mutex_lock(&m); pthread_mutex_lock(&m);", r"in main at a.c:\d+: the calling thread has this mutex"),
                ("", "pthread_cond_wait(&c, &m);", r"pthread_cond_wait\(\) in main at a.c:\d+ waits for ever"),
                ("", "const int big = memfd_create(\"\", 0); mmap(0, 400ul << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE, big, 0);",
                 r"the shared heap of \d+ MiB is full: \d+ bytes were requested, \d+ are free; raise BRAID_HEAP_MIB"),
                ("char* q = malloc(99); free(q + 16);", "",
                 r"free\(\) of shared memory in f at a.c:\d+: 0x[0-9a-f]+ is no block that malloc\(\)"),
                ("char* q = malloc(99); free(q); free(q);", "",
                 r"free\(\) of shared memory in f at a.c:\d+: the block 0x[0-9a-f]+ is free already"),
                ("pthread_barrier_t b; memset(&b, 1, sizeof b); pthread_barrier_wait(&b);", "", "was not initialised"),
                ("char a[60000]; memset(a, number, 60000); number += a[3]; f(a);", "", "the stack of a thread is full")):
            with self.subTest(body=body, main=main):
                self.assertRegex(self.run_thread(body, main, expect=70, before="#include <sys/mman.h>").stderr, text)
        # Who joins the thread does not go on while exit() runs, whoever calls it.
        for body in ("exit(3);", 'errx(3, "gone");'):
            with self.subTest(body=body):
                ended = self.run_thread(body, "atexit(late);", expect=3,
                                        before="#include <err.h>\nstatic void late(void) { usleep(600000); }")
                self.assertIn("exited with status 3", ended.stderr)

    def test_what_threads_wait_for_is_told_in_the_programs_words(self):
        self.build("#include <pthread.h>\n#include <semaphore.h>\n#include <stdio.h>\n"
                   "static pthread_t t[4]; static sem_t s; static pthread_barrier_t two; static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;\n"
                   "static void* f(void* p) { if (p == &s) sem_wait(&s); else if (p == &two) pthread_barrier_wait(&two);"
                   " else { pthread_mutex_lock(&m); pthread_exit(0); }\n return 0; }\n"
                   "int main(void) { sem_init(&s, 0, 0); pthread_barrier_init(&two, 0, 2); pthread_mutex_lock(&m);\n"
                   'printf("%p %p %p\\n", (void*)&s, (void*)&two, (void*)&m); fflush(stdout);\n'
                   "pthread_create(t, 0, f, &s); pthread_create(t + 1, 0, f, &two); pthread_create(t + 2, 0, f, 0);\n"
                   "pthread_join(t[1], 0); return 0; }\n")
        done = live(2, "./a", folder=self.folder, expect=70, options=("--watchdog", "1"))
        semaphore, barrier, mutex = done.stdout.split("] ")[1].split()
        waits = re.findall(r"compute node \d+ waits (.*)", done.stderr)
        for text in ("for thread 2 to end", f"for the semaphore at {semaphore} to be posted",
                     f"for others to come to the barrier at {barrier}", "for a thread to run"):
            self.assertIn(text, [wait.split(";")[0] for wait in waits], done.stderr)
        self.assertTrue(any(wait.startswith(f"for the lock at {mutex}, ") for wait in waits), done.stderr)

    def test_memory_of_a_shared_library_belongs_to_one_cluster(self):
        (self.folder / "store.c").write_text("#include <stdlib.h>\n"
                                             "int* store_make(void) { int* p = malloc(1 << 24); p[1000] = 7; return p; }\n"
                                             "int store_get(const int* p) { return p[1000]; }\n")
        run("gcc", "-g", "-fPIC", "-shared", "store.c", "-o", "libstore.so", folder=self.folder)
        text = ("#include <pthread.h>\n#include <stdio.h>\nint* store_make(void); int store_get(const int*);\n"
                "static int* store; static pthread_barrier_t made, ended;\n"
                "static void* makes(void* n) { store = store_make(); pthread_barrier_wait(&made); pthread_barrier_wait(&ended); return n; }\n"
                "static void* uses(void* n) { pthread_barrier_wait(&made); printf(\"%d\\n\", USE);"
                " pthread_barrier_wait(&ended); return n; }\n"
                "int main(void) { pthread_t t, u; pthread_barrier_init(&made, 0, 2); pthread_barrier_init(&ended, 0, 2);\n"
                "pthread_create(&t, 0, makes, 0); pthread_create(&u, 0, uses, 0);\n"
                "pthread_join(t, 0); pthread_join(u, 0); return 0; }\n")
        library = ("-L.", "-lstore", f"-Wl,-rpath,{self.folder}")
        elsewhere = "braid:   at this address another cluster has private memory"
        for use, cure in (("store_get(store)", "link libstore.so as an archive in a pthread program (-l:libstore.a)"),
                          ("store[1000]", "link the library that made it as an archive in a pthread program (-l:libNAME.a)")):
            with self.subTest(use):
                self.build(text.replace("USE", use), *library)
                done = live(2, "--compute", "1", "./a", folder=self.folder, expect=128 + signal.SIGSEGV)
                self.assertIn(elsewhere, done.stderr)
                self.assertIn(cure, done.stderr)
        # Without such memory nobody claims that there is.
        self.build(text.replace("USE", "*(volatile int*)1048576"), *library)
        done = live(2, "--compute", "1", "./a", folder=self.folder, expect=128 + signal.SIGSEGV)
        self.assertNotIn("another cluster", done.stderr)
        # As an archive its memory is shared.
        run("gcc", "-g", "-c", "store.c", folder=self.folder)
        run("ar", "rc", "libstore.a", "store.o", folder=self.folder)
        self.build(text.replace("USE", "store_get(store)"), "-L.", "-l:libstore.a")
        self.assertEqual(live(2, "--compute", "1", "./a", folder=self.folder).stdout, "[c0] 7\n")

    def test_shared_libraries_with_archives_are_named_when_a_program_is_linked(self):
        if "/" not in run("gcc", "-print-file-name=libz.a", folder=self.folder).stdout:
            self.skipTest("zlib1g-dev is not installed")
        text = "const char* zlibVersion(void); int main(void) { return zlibVersion() == 0; }\n"
        note = "braid-cc: note: a has libz as shared libraries"
        noted = self.build(text, "-lz")
        self.assertIn(note, noted.stderr)
        self.assertIn("'-l:libz.a' takes the archives; --no-notes leaves this out", noted.stderr)
        for words in (("-lz", "--no-notes"), ("-l:libz.a",), ("-lz", "-c", "-o", "a.o"), ("-lz", "-o", "conftest")):
            self.assertNotIn("note:", self.build(text, *words).stderr, words)
        for words in (("-lm",), ("-lm", "--simulated")):  # of Braid's own, too
            self.assertNotIn("note:", self.build("int main(void) { return 0; }\n", *words).stderr, words)
        wrong = self.build("int main(void) { return missing(); }\n", "-lz", "-Wno-implicit-function-declaration", expect=1)
        self.assertNotIn("note:", wrong.stderr)

    def test_loops_that_poll_plain_variables_are_named(self):
        self.build('#include <pthread.h>\n#include <signal.h>\n#include <stdio.h>\n'
                   "static struct { char before[8192]; int asked; char between[8192]; int answered; char behind[8192]; } p;\n"
                   "static pthread_barrier_t both; static void handler(int n) { (void)n; }\n"
                   '__attribute__((noinline)) static void poll_for(const int* flag) { while (!*flag) __asm__("" ::: "memory"); }\n'
                   '__attribute__((noinline)) static void look(const int* flag) { __asm__ volatile("" :: "r"(*flag)); }\n'
                   "static void* ask(void* none) { look(&p.asked); look(&p.answered); pthread_barrier_wait(&both); p.asked = 1; poll_for(&p.answered); return none; }\n"
                   "static void* answer(void* none) { look(&p.asked); look(&p.answered); pthread_barrier_wait(&both); poll_for(&p.asked); p.answered = 1; return none; }\n"
                   "int main(void) { pthread_t a, b; signal(SIGUSR1, handler); pthread_barrier_init(&both, 0, 2);\n"
                   "pthread_create(&a, 0, ask, 0); pthread_create(&b, 0, answer, 0);\n"
                   "pthread_join(a, 0); pthread_join(b, 0); return 0; }\n", "-O2")
        for machine in (("--clusters", "2"), ("--hosts", "127.0.0.1,127.0.0.2")):
            with self.subTest(machine):
                command = subprocess.Popen([BIN / "braid", "run", "--quiet", "--compute", "1", *machine, "--watchdog-hint", "3",
                                            self.folder / "a"], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                lines = []
                while sum("now in poll_for at a.c:" in line for line in lines) < 2:
                    lines.append(command.stderr.readline())
                    self.assertTrue(lines[-1], lines)
                command.terminate()
                text = "".join(lines) + command.stderr.read()
                command.wait()
                command.stderr.close()
                self.assertIn("braid: for 3 s some compute nodes have waited while all others computed without a call", text)
                self.assertRegex(text, r"\[c0\] braid: compute node 0 waits for thread \d to end")
                self.assertRegex(text, r"\[c1\] braid: compute node \d+ computes without a call of the runtime for \d+ s, now in poll_for")

    def test_ends_of_the_program(self):
        self.assertEqual(self.run_thread("", after='pthread_create(&name, 0, f, 0); printf("main\\n"); pthread_exit(0);').stdout,
                         "[c0] main\n")
        # As for any thread, values of keys are destroyed before the others have ended.
        self.assertEqual(self.run_thread(
            "", after='pthread_key_create(&k, d); pthread_setspecific(k, "of main"); pthread_mutex_lock(&m);'
                      ' pthread_create(&name, 0, g, 0); printf("main\\n"); pthread_exit(0);',
            before='static pthread_key_t k; static void d(void* p) { puts(p); pthread_mutex_unlock(&m); }'
                   'static void* g(void* p) { pthread_mutex_lock(&m); return p; }').stdout,
                         "[c0] main\n[c0] of main\n")
        # A thread that waits for ever does not hold main() back, wherever it is.
        self.assertEqual(self.run_thread(
            "", after='pthread_create(&name, 0, g, 0); pthread_create(&name, 0, g, 0); sleep(0); printf("main\\n"); exit(0);',
            before="static void* g(void* p) { (void)p; pthread_mutex_lock(&m); pthread_cond_wait(&c, &m); return 0; }").stdout,
                         "[c0] main\n")
        # So does exit(0) in a thread, wherever it is, which runs the handlers, while main() and others wait for ever or for input.
        for before, clusters in ((0, 1), (0, 2), (1, 2), (2, 4)):
            with self.subTest(before=before, clusters=clusters):
                done = self.run_thread(
                    'number = 7; printf("ends\\n"); exit(0);', "atexit(late);"
                    + "pthread_create(&name, 0, g, 0);" * before, clusters=clusters, after="getchar(); pause();", options=("--compute", "1"),
                    before='static void late(void) { printf("late %d\\n", number); }\n'
                           "static void* g(void* p) { char c; while (read(0, &c, 1) >= 0) pause(); return p; }")
                self.assertEqual(without_prefix(done.stdout), "ends\nlate 7\n", done.stderr)
        # _exit(0) does not, nor does it write what streams have; with another status it ends the run, and a child of vfork() alone.
        for clusters, status in ((1, 0), (2, 0), (2, 3)):
            with self.subTest(clusters=clusters, status=status):
                done = self.run_thread(
                    'int s; const pid_t child = vfork(); if (child == 0) _exit(0); waitpid(child, &s, 0);'
                    f' if (WIFEXITED(s)) write(1, "ends\\n", 5); printf("lost"); _exit({status});', "atexit(late);", clusters=clusters,
                    after="pause();", options=("--compute", "1"), expect=status,
                    before='#include <sys/wait.h>\nstatic void late(void) { puts("late"); fflush(stdout); }')
                self.assertEqual(without_prefix(done.stdout), "ends\n", done.stderr)
        # Without any thread there is no machine.
        self.build('#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts("none"); free(malloc(10)); return 4; }\n')
        self.assertEqual(live(2, "./a", folder=self.folder, expect=4).stdout, "[c0] none\n")

    def test_the_report_lists_the_nodes_that_threads_had(self):
        self.run_thread("")
        report = self.folder / "report.json"
        live(2, "./a", folder=self.folder, options=("--report", report, "--compute", "1"))
        nodes = [len(cluster["application"]["report"]["nodes"]) for cluster in json.loads(report.read_text())["clusters"]]
        self.assertGreaterEqual(min(nodes), 1)
        self.assertLessEqual(sum(nodes), 4, "main(), a thread, and what computes beside them; of the 128 of a cluster")

    def test_more_threads_than_compute_nodes_and_than_there_is_room_for(self):
        many = ("pthread_t t[{0}]; pthread_barrier_init(&b, 0, {0}); for (long i = 0; i < {0}; ++i) "
                "pthread_create(&t[i], 0, g, 0); for (int i = 0; i < {0}; ++i) pthread_join(t[i], 0);")
        before = ("static pthread_barrier_t b; static void* g(void* p) { pthread_barrier_wait(&b); pthread_mutex_lock(&m);"
                  " ++number; pthread_mutex_unlock(&m); pthread_barrier_wait(&b); return p; }")
        self.assertEqual(self.run_thread("", after=many.format(40) + ' printf("%d\\n", number);', before=before).stdout,
                         "[c0] 40\n")
        done = self.run_thread("", after=many.format(130), before=before, clusters=1, expect=70)
        self.assertRegex(done.stderr, r"pthread_create\(\) in main at a.c:\d+: the program has more threads at once than the 126 ")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
