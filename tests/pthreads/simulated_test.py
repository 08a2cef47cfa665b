#!/usr/bin/env python3
"""pthread programs in simulation: built unchanged by `braid-cc --pthreads --simulated`, with results as of the plain compiler's
build, and the same trace in every run, in strict order too.

    simulated_test.py BIN FOLDER KERNELS [unittest arguments]      FOLDER, KERNELS: the programs
"""

import itertools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1]).resolve()
FOLDER = pathlib.Path(sys.argv[2]).resolve()
KERNELS = pathlib.Path(sys.argv[3]).resolve()


def run(*words, folder, expect=0):
    done = subprocess.run([str(w) for w in words], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != expect:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


# What takes long to compile. Live runs of the same programs are among the quick tests.
LONG = unittest.skipUnless(os.environ.get("BRAID_LONG_TESTS"), "set BRAID_LONG_TESTS, as tools/check --full does")


class Simulated(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def build(self, source, native=True):
        cxx = source.suffix == ".cpp"
        flags = ["-O2", "-g", "-std=c++20"] if cxx else ["-O2", "-g", "-std=gnu11"]
        if native:
            run("g++" if cxx else "gcc", *flags, "-pthread", source, "-o", "native", "-lm", folder=self.folder)
        run(BIN / ("braid-c++" if cxx else "braid-cc"), "--pthreads", "--simulated", *flags, source, "-o", "a", "-lm",
            folder=self.folder)

    def simulate(self, *arguments, machine=(2, 1), expect=0, options=()):
        """The run, and its trace's hash."""
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        done = run(BIN / "braid", "sim", "--quiet", "--clusters", machine[0], "--compute", machine[1], "--report", report,
                   *options, "./a", *arguments, folder=self.folder, expect=expect)
        return done, json.loads(report.read_text())["trace_hash"] if expect == 0 else None

    def compare(self, source, *arguments, machines=((1, 5), (2, 3), (6, 1)), strict=True):
        """With the plain build, and each run with one in strict order."""
        self.build(source)
        expected = run("./native", *arguments, folder=self.folder).stdout
        for machine in machines:
            with self.subTest(machine=machine):
                done, trace = self.simulate(*arguments, machine=machine)
                self.assertEqual(done.stdout, expected, done.stderr)
                again, same = self.simulate(*arguments, machine=machine, options=["--strict"] if strict else [])
                self.assertEqual((again.stdout, same), (done.stdout, trace))
        return expected

    def test_answers_to_wrong_arguments_and_at_limits_are_those_of_the_c_library(self):
        for flags in (("-DTRIES",), ()):
            run("gcc", "-O2", "-w", "-pthread", *flags, FOLDER / "answers.c", "-o", "a", folder=self.folder)
            expected = sorted(run("./a", folder=self.folder).stdout.splitlines())
            run(BIN / "braid-cc", "--pthreads", "--simulated", "-O2", "-w", *flags, FOLDER / "answers.c", "-o", "a", folder=self.folder)
            done, _ = self.simulate(machine=(4, 2))
            with self.subTest(flags=flags):
                self.assertEqual(sorted(done.stdout.splitlines()), expected, done.stderr)

    def test_memory_of_the_c_library_is_used_and_freed_in_another_cluster(self):
        self.assertEqual(self.compare(FOLDER / "memory.c", machines=((8, 1),)), "memory: 0 wrong\n")

    def test_every_call_that_waits(self):
        self.assertEqual(self.compare(FOLDER / "calls.c"), "calls: 0 wrong\n")

    @unittest.skipUnless((BIN.parent / "lib" / "braid_pthreads.so").exists(), "the compiler plug-in is not built")
    def test_thread_local_variables_are_shared_by_address(self):
        self.assertTrue(self.compare(FOLDER / "thread_variables.c", strict=False).endswith("800 19, 0 wrong\n"))

    def test_calls_that_do_not_wait_or_give_up_and_atomics(self):
        self.assertEqual(self.compare(FOLDER / "tries.c"), "tries: 0 wrong\n")

    @LONG
    def test_threads_of_c11(self):
        self.assertEqual(self.compare(FOLDER / "c11.c", machines=((1, 4), (2, 2), (4, 1))), "c11: 0 wrong\n")

    def test_keys_that_come_and_go_and_semaphores_with_names(self):
        self.assertEqual(self.compare(FOLDER / "names.c", machines=((1, 2), (2, 1))), "names: 0 wrong\n")

    def test_mutexes_and_conditions_in_any_number_and_anywhere(self):
        self.assertEqual(self.compare(FOLDER / "objects.c", machines=((1, 5), (3, 2))), "objects: 0 wrong\n")

    def test_threads_wait_for_volatile_variables(self):
        # What they see first is a race: it depends on the order, but not from run to run.
        self.assertEqual(self.compare(FOLDER / "volatiles.c", strict=False), "volatiles: 24 counted, 0 wrong\n")
        done, _ = self.simulate(machine=(3, 2), options=["--protocol", "lazy"])
        self.assertEqual(done.stdout, "volatiles: 24 counted, 0 wrong\n")

    def test_atomic_instructions_of_inline_assembly(self):
        self.assertEqual(self.compare(FOLDER / "assembly.c", strict=False), "assembly: 800 800 800 800 2400 800 counted, 0 wrong\n")
        done, _ = self.simulate(machine=(3, 2), options=["--protocol", "lazy"])
        self.assertEqual(done.stdout, "assembly: 800 800 800 800 2400 800 counted, 0 wrong\n")
        done, _ = self.simulate("signals", machine=(2, 1))
        self.assertEqual(done.stdout, "handlers: right\n")

    def test_what_was_written_before_a_volatile_variable_is_seen_with_it(self):
        self.build(FOLDER / "flags.c", native=False)
        for machine, protocol, seed in itertools.product(((3, 2), (5, 1)), ("eager", "lazy"), range(1, 5)):
            with self.subTest(machine=machine, protocol=protocol, seed=seed):
                done, _ = self.simulate(machine=machine, options=["--protocol", protocol, "--jitter", 10000, "--seed", seed])
                self.assertEqual(done.stdout, "flags: 120 counted, 0 wrong\n")

    @LONG
    def test_the_cxx_library(self):
        self.assertEqual(self.compare(FOLDER / "cxx.cpp"), "cxx: 0 wrong\n")

    def test_waits_for_signals_of_other_threads(self):
        self.assertEqual(self.compare(FOLDER / "signal_waits.c", machines=((1, 5), (2, 2), (4, 1))), "signal waits: 0 wrong\n")

    def test_a_thread_for_each_processor_beside_main(self):
        self.build(FOLDER / "processors.c", native=False)
        for machine, processors in (((1, 2), 1), ((2, 1), 1), ((2, 2), 3), ((16, 4), 63)):
            with self.subTest(machine=machine):
                done, _ = self.simulate(machine=machine)
                self.assertEqual(done.stdout, f"processors: {processors}, 0 wrong\n", done.stderr)
        done, _ = self.simulate(machine=(1, 1), expect=70)
        self.assertRegex(done.stderr, "more threads at once than the run has compute nodes, 1 with that of main")

    def test_threads_use_streams_that_others_have_opened(self):
        """The call of another cluster's stream takes a compute node there."""
        self.assertEqual(self.compare(FOLDER / "streams.c", machines=((1, 4), (3, 5))), "streams: 0 wrong\n")
        done, _ = self.simulate(machine=(4, 1), expect=70)
        self.assertRegex(done.stderr, r"\(\) in \w+ at \S*streams.c:\d+ needs a thread of cluster \d, and the cluster has room for no more: raise "
                                      "--compute of `braid sim`")

    def test_lazy_protocol(self):
        self.build(FOLDER / "calls.c", native=False)
        longer, _ = self.simulate(machine=(3, 2), options=["--page-bytes", "8192"])
        self.assertEqual(longer.stdout, "calls: 0 wrong\n")
        done, trace = self.simulate(machine=(3, 2), options=["--protocol", "lazy"])
        self.assertEqual(done.stdout, "calls: 0 wrong\n")
        self.assertEqual(self.simulate(machine=(3, 2), options=["--protocol", "lazy", "--strict"])[1], trace)

    def test_kernels(self):
        self.assertIn("rows: sum", self.compare(FOLDER / "rows.c", 4, machines=((1, 4), (2, 2), (16, 1))))
        self.assertIn("0 out of order", self.compare(FOLDER / "queue.c", 5, machines=((2, 3), (16, 1)), strict=False))

    def test_results_do_not_depend_on_the_machine(self):
        """Threads as many as compute nodes."""
        for name, arguments, machines in (("sort", ["16384"], ((1, 4), (16, 1))), ("grid", ["128", "2"], ((4, 4), (64, 1))),
                                          ("tree", ["256", "1"], ((1, 4), (4, 1)))):
            self.build(KERNELS / f"{name}.c")
            result = lambda done: re.search(r"result ([0-9a-f]{16})", done.stdout)[1]
            expected = result(run("./native", 1, *arguments, folder=self.folder))
            for machine in machines:
                with self.subTest(name=name, machine=machine):
                    done, trace = self.simulate(machine[0] * machine[1], *arguments, machine=machine)
                    self.assertEqual(result(done), expected)
                    self.assertEqual(self.simulate(machine[0] * machine[1], *arguments, machine=machine)[1], trace)

    def run_threads(self, thread, main, expect=0, machine=(2, 2), options=(), before=""):
        """Thread function f() and main(), which has room for three names."""
        (self.folder / "a.c").write_text(
            "#include <pthread.h>\n#include <semaphore.h>\n#include <signal.h>\n#include <stdio.h>\n#include <time.h>\n#include <unistd.h>\n"
            "static pthread_t t[9]; static sem_t s, for_ever; static int number;\n"
            f"static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;\n{before}\n"
            f"static void* f(void* p) {{ {thread}\n return p; }}\n"
            f"int main(void) {{ sem_init(&s, 0, 0); sem_init(&for_ever, 0, 0);\n{main}\n return 0; }}\n")
        self.build(self.folder / "a.c", native=False)
        return self.simulate(machine=machine, expect=expect, options=options)[0]

    def test_detached_threads_give_their_compute_nodes_back(self):
        many = "for (int i = 0; i < 12; ++i) { pthread_create(t, 0, f, 0); pthread_detach(*t); sem_wait(&s); usleep(1000); }"
        for machine in ((1, 2), (2, 1)):
            with self.subTest(machine=machine):
                done = self.run_threads("++number; sem_post(&s);", many + ' printf("%d\\n", number);', machine=machine)
                self.assertEqual(done.stdout, "12\n")

    def test_main_ends_the_run_whatever_threads_do(self):
        for machine in ((1, 2), (2, 1)):
            for thread in ("sem_post(&s); sem_wait(&for_ever);", "sem_post(&s); for (;;) usleep(100);"):
                with self.subTest(machine=machine, thread=thread):
                    done = self.run_threads(thread, 'pthread_create(t, 0, f, 0); sem_wait(&s); puts("main");',
                                            machine=machine)
                    self.assertEqual(done.stdout, "main\n")

    def test_exit_in_a_thread_ends_the_run_with_its_handlers(self):
        for machine in ((1, 2), (2, 1), (3, 1), (2, 2)):
            for others in range(machine[0] * machine[1] - 1):
                with self.subTest(machine=machine, others=others):
                    done = self.run_threads("if (p) { sem_wait(&s); for (;;) usleep(100); } number = 7; exit(0);",
                                            f"atexit(late); for (int i = 0; i < {others}; ++i) pthread_create(t, 0, f, t);"
                                            " pthread_create(t, 0, f, 0); for (;;) usleep(10);", machine=machine,
                                            before='#include <stdlib.h>\nstatic void late(void) { printf("late %d\\n", number); }')
                    self.assertEqual(done.stdout, "late 7\n")

    def test_time_is_virtual(self):
        done = self.run_threads("sleep(2000); sem_post(&s);",
                                "const time_t begin = time(0); pthread_create(t, 0, f, 0); sem_wait(&s);"
                                ' printf("%d\\n", (int)(time(0) - begin));')
        self.assertEqual(done.stdout, "2000\n")

    def test_the_hosts_clock_is_not_set_and_sleeps_of_no_descriptors_pass_virtual_time(self):
        done = self.run_threads("poll(0, 0, 500000); select(0, 0, 0, 0, &long_time); sem_post(&s);",
                                "const time_t begin = time(0); pthread_create(t, 0, f, 0); sem_wait(&s); const struct timespec now = {1, 0};"
                                " const int done = clock_settime(CLOCK_REALTIME, &now);"
                                ' printf("%d %d %d\\n", (int)(time(0) - begin), done, errno == EPERM);',
                                before="#include <errno.h>\n#include <poll.h>\n#include <sys/select.h>\nstatic struct timeval long_time = {1500, 0};")
        self.assertEqual(done.stdout, "2000 -1 1\n")

    def test_a_thread_that_sleeps_sees_what_others_have_written_before_they_slept(self):
        for options in ((), ("--protocol", "lazy")):
            with self.subTest(options=options):
                done = self.run_threads("told = 1; while (told == 1) usleep(100); told = 3; sleep(1);",
                                        "pthread_create(t, 0, f, 0); while (!told) usleep(100); told = 2; while (told == 2) sched_yield();"
                                        ' printf("%d\\n", told);', machine=(2, 1), options=options, before="#include <sched.h>\nint told;")
                self.assertEqual(done.stdout, "3\n")

    def test_handlers_of_signals_that_come_at_any_time_use_globals(self):
        done = self.run_threads(
            "for (int i = 0; i < 3000; ++i) { pthread_mutex_lock(&mutex); ++number; pthread_mutex_unlock(&mutex); }",
            "signal(SIGALRM, tick); setitimer(ITIMER_REAL, &often, 0); pthread_create(t, 0, f, 0); pthread_create(t + 1, 0, f, 0);"
            " while (ticks < 50) { pthread_mutex_lock(&mutex); pthread_mutex_unlock(&mutex); } pthread_join(*t, 0);"
            ' pthread_join(t[1], 0); printf("%d\\n", number);', machine=(3, 1),
            before="#include <signal.h>\n#include <sys/time.h>\nstatic volatile int ticks; static struct itimerval often = {{0, 300}, {0, 300}};\n"
                   "static void tick(int s) { if (s == SIGALRM) ++ticks; }")
        self.assertEqual(done.stdout, "6000\n")

    def test_handlers_that_block_all_signals_use_globals_and_semaphores(self):
        for machine in ((1, 3), (2, 2), (3, 1)):
            with self.subTest(machine=machine):
                done = self.run_threads(
                    "for (int i = 0; i < 20; ++i) { kill(getpid(), SIGUSR1); while (sem_wait(&s)) ; }",
                    "struct sigaction all = {.sa_handler = take}; sigset_t set; sigfillset(&all.sa_mask); sigaction(SIGUSR1, &all, 0);"
                    " sigfillset(&set); sigdelset(&set, SIGUSR1); sigprocmask(SIG_SETMASK, &set, 0); pthread_create(t, 0, f, 0);"
                    ' pthread_create(t + 1, 0, f, 0); pthread_join(*t, 0); pthread_join(t[1], 0); printf("%d\\n", number);', machine=machine,
                    before="#include <signal.h>\nstatic void take(int signal) { pthread_mutex_lock(&mutex); number += signal == SIGUSR1;"
                           " pthread_mutex_unlock(&mutex); sem_post(&s); }")
                self.assertEqual(done.stdout, "40\n")

    def test__exit_ends_the_run_without_handlers(self):
        for machine in ((1, 2), (3, 1)):
            for status in (0, 3):
                with self.subTest(machine=machine, status=status):
                    done = self.run_threads(f'write(1, "ends\\n", 5); printf("lost"); _exit({status});',
                                            "atexit(late); pthread_create(t, 0, f, 0); for (;;) usleep(10);", machine=machine, expect=status,
                                            before='#include <stdlib.h>\nstatic void late(void) { puts("late"); }')
                    self.assertEqual(done.stdout, "ends\n")

    def test_a_change_of_the_working_folder_takes_a_compute_node_of_each_cluster(self):
        thread = 'if (chdir("/")) ++number; pthread_create(t, 0, g, t); pthread_join(*t, 0);'
        before = "static char name[9]; static void* g(void* p) { if (!getcwd(name, 9)) number += 2; return p; }"
        main = "pthread_create(t + 1, 0, f, 0); pthread_join(t[1], 0);"
        done = self.run_threads(thread, main + ' printf("%d %s\\n", number, name);', machine=(2, 2), before=before)
        self.assertEqual(done.stdout, "0 /\n")
        done = self.run_threads(thread, main, machine=(2, 1), before=before, expect=70)
        self.assertRegex(done.stderr, r"chdir\(\) in f at a.c:\d+ needs a thread of cluster 0, and the cluster has room for no more")

    def test_threads_are_cancelled_at_their_next_cancellation_point(self):
        self.assertEqual(self.compare(FOLDER / "cancels.c", "main", machines=((1, 11), (2, 5), (5, 2))),
                         "cancels: 0 wrong\nmain() was cancelled, 0 wrong\n")

    def test_threads_of_cxx_are_cancelled(self):
        self.assertEqual(self.compare(FOLDER / "cancels_cxx.cpp", machines=((1, 4), (2, 2))),
                         "cancels of C++: 0 wrong\nmain() has ended, 0 wrong\n")

    def test_what_cannot_be_done_is_named(self):
        for thread, main, status, text in (
                ("sem_wait(&s);", "for (int i = 0; i < 4; ++i) pthread_create(&t[i], 0, f, 0);", 70,
                 r"pthread_create\(\) in main at a\.c:\d+: the program has more threads at once than the run has compute nodes, 4 "
                 r"with that of main\(\): create fewer, or raise --compute or --clusters of `braid sim` \(sysconf\(_SC_NPROCESSORS_ONLN\) "
                 r"and std::thread::hardware_concurrency\(\) grow with them: one less"),
                ("sem_wait(&for_ever);", "pthread_create(t, 0, f, 0); pthread_join(*t, 0);", 1,
                 r"all compute nodes wait, and nothing is in progress"),
                ("pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);",
                 "pthread_create(t, 0, f, 0); pthread_cancel(*t); pthread_join(*t, 0);", 70,
                 r"pthread_setcanceltype\(PTHREAD_CANCEL_ASYNCHRONOUS\) in simulation in f at a\.c:\d+ is not available with --pthreads"),
                ("sem_wait(&for_ever);", "pthread_create(t, 0, f, 0); pthread_kill(*t, 10);", 70,
                 r"pthread_kill\(\) in simulation, of a signal that is not blocked, in main at a\.c:\d+ is not available with --pthreads: .*; let the thread look at a flag"),
                ("pthread_join(pthread_self(), 0); pthread_mutex_unlock(&mutex);",
                 "pthread_mutex_lock(&mutex); pthread_create(t, 0, f, 0); pthread_join(*t, 0);", 70,
                 r"in f at a\.c:\d+: another thread than the calling one has this mutex")):
            with self.subTest(text=text):
                self.assertRegex(self.run_threads(thread, main, expect=status).stderr, text)

    def test_a_lock_in_a_global_that_stops_a_run_is_named_by_its_address(self):
        done = self.run_threads("pthread_mutex_lock(&mutex);",
                                'printf("%p\\n", (void*)&mutex); pthread_mutex_lock(&mutex);'
                                " pthread_create(t, 0, f, 0); pthread_join(*t, 0);", expect=1)
        self.assertIn(f"waits for the lock at {done.stdout.strip()}, which", done.stderr)

    def test_what_threads_wait_for_is_told_in_the_programs_words(self):
        done = self.run_threads(
            "const long me = (long)p; if (me == 1) sem_wait(&for_ever); if (me == 2) pthread_barrier_wait(&two);"
            " if (me == 3) pthread_rwlock_rdlock(&lock); if (me == 4) { pthread_mutex_lock(&mutex); pthread_cond_wait(&c, &mutex); }",
            "pthread_barrier_init(&two, 0, 2); pthread_rwlock_wrlock(&lock);"
            ' printf("%p %p %p %p\\n", (void*)&for_ever, (void*)&two, (void*)&lock, (void*)&c);'
            " for (long i = 1; i < 5; ++i) pthread_create(&t[i], 0, f, (void*)i); pthread_join(t[3], 0);",
            machine=(3, 2), expect=1,
            before="static pthread_barrier_t two; static pthread_rwlock_t lock; static pthread_cond_t c = PTHREAD_COND_INITIALIZER;")
        semaphore, barrier, lock, condition = done.stdout.split()
        waits = [re.sub(r", which is at cluster \d$", "", wait) for wait in re.findall(r"compute node \d+ waits (.*)", done.stderr)]
        self.assertEqual(sorted(waits), sorted([
            "for thread 3 to end", "for a thread to run", f"for the semaphore at {semaphore} to be posted",
            f"for others to come to the barrier at {barrier}", f"for the read-write lock at {lock}",
            f"for a signal of the condition at {condition}"]), done.stderr)

    def test_a_program_for_simulation_names_the_command(self):
        self.run_threads("", "")
        self.assertIn("this program was built for simulation: run it with `braid sim`",
                      run("./a", folder=self.folder, expect=70).stderr)
        wrong = run(BIN / "braid-cc", "--pthreads", "--check-races", "a.c", folder=self.folder, expect=2)
        self.assertIn("--check-races does not know the calls of <pthread.h>", wrong.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
