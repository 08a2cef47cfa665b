#!/usr/bin/env python3
"""`braid study --on slurm|parallel`: tasks of the real Slurm and of GNU parallel, here and by ssh, on network namespaces as hosts.

    study_on_test.py BIN [unittest's options]

Needs GNU parallel; and root, ip (iproute2), sshd, slurm-wlm and munge for hosts. Exit status 77 where parallel is missing; what else
is missing skips its part.
"""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

import slurm_network
import ssh_network
from runs import Command, finish, make_folder, processes_of, script, wait_until

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
HOSTS = 2

# A file with the conditions and twins of real ones: a point without contention waits for the same one with it.
REAL = """
applications:
- {application: jacobi, arguments: [--size, 32, --iterations, 1]}
base: {simulation: {model: alewife-1997}, compute: 1}
vary:
- clusters: [2, 3]
- simulation.mode: [no-contention, real]
- faults.seed: [1, 2]
"""

# Stands in for the engine: a point with --hold waits until the gate is there, one with --fail fails.
ENGINE = """
echo "$*" >> {folder}/diary
case " $* " in
*" --fail=1 "*) echo "the last words of a program"; exit 3;;
*" --hold=1 "*) while [ ! -e {folder}/gate ]; do sleep 0.05; done;;
esac
echo '{{"parallel_cycles": 1000}}' > "$4"
"""


class Study(unittest.TestCase):
    """With a folder, which the last host does not see a part of, and a braid that `before` starts."""

    @classmethod
    def make_folders(cls):
        """`base`, and in it `hidden`, which the last host does not see."""
        cls.base = make_folder(cls.addClassCleanup)
        cls.hidden = cls.base / "hidden"
        cls.hidden.mkdir()

    def prepare(self, folder, before=(), environment=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        self.out = self.folder / "out"
        self.program = script(self.folder / "program", "exit 0\n")
        engine = script(self.folder / "engine", ENGINE.format(folder=self.folder))
        self.environment = environment or dict(os.environ)
        self.with_engine = {**self.environment, "BRAID_STUDY_ENGINE": engine}
        self.braid = Command(BIN, before, "study")

    def study(self, axes, name="study.yaml"):
        """A file with a program of no work and these axes; returns its path."""
        file = self.folder / name
        file.write_text(f"applications: [{{application: {self.program}}}]\nvary: [{axes}]\n")
        return str(file)

    def run_study(self, file, *options, out=None, env=None):
        return self.braid.run(file, "-o", str(out or self.out), *options, env=env or self.with_engine)

    def table(self, out=None):
        return ((out or self.out) / "points.csv").read_bytes()

    def began(self):
        """The names of the points that have begun since the last call."""
        diary = self.folder / "diary"
        lines = diary.read_text().splitlines() if diary.exists() else []
        diary.unlink(missing_ok=True)
        return sorted(next(word for word in line.split() if word.startswith("--name=")) for line in lines)

    def expect_the_same_table(self, *options):
        file = self.folder / "real.yaml"
        file.write_text(REAL)
        here = Command(BIN, (), "study").run(str(file), "-o", str(self.folder / "here"))
        self.assertEqual(here.returncode, 0, here.stderr)
        run = self.run_study(str(file), *options, env=self.environment)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(self.table(), self.table(self.folder / "here"))
        self.assertEqual(self.table().count(b"\n"), 1 + 8)
        self.assertEqual((self.out / "queues.csv").read_bytes(), (self.folder / "here" / "queues.csv").read_bytes())
        return run

    def tasks_are_there(self):
        return len(list((self.out / "tasks").glob("[0-9]*.json")))

    def start_held(self, *options, fails=False):
        """A study with a point that has finished and one that is held, and maybe one that fails."""
        c = [", c", ", 0", ", arguments.fail: [0, 0, 1]"] if fails else ["", "", ""]
        file = self.study("{arguments.name: [a, b%s], arguments.hold: [0, 1%s]%s}" % tuple(c))
        run = self.braid.start(file, "-o", str(self.out), *options, env=self.with_engine)
        self.addCleanup(run.kill)
        logs = lambda: "".join(log.read_text() for log in (self.out / "tasks").glob("*.log"))
        names = ["--name=a", "--name=b", "--name=c"][:2 + fails]
        # An engine is there before it has written that it has begun.
        diary = self.folder / "diary"
        begun = lambda: diary.exists() and diary.read_text().count("\n") >= len(names)
        self.assertTrue(wait_until(lambda: "point done" in logs() and ("point failed" in logs() or not fails) and self.holders()
                                   and begun()))
        self.assertEqual(self.began(), names)
        return file, run

    def holders(self):
        return processes_of("sh", str(self.folder / "engine"), "--hold=1")

    def expect_nothing_left(self):
        self.assertTrue(wait_until(lambda: not self.holders(), 20), "the engine still runs")

    def expect_resumed(self, file, *options):
        run = self.braid.start(file, "-o", str(self.out), *options, env=self.with_engine)
        self.addCleanup(run.kill)
        self.assertTrue(wait_until((self.folder / "diary").exists))
        (self.folder / "gate").touch()
        _, err = finish(run)
        self.assertEqual(run.returncode, 0, err)
        self.assertIn("2 points; 1 is finished already; 1 left", err)
        self.assertEqual(self.began(), ["--name=b"])
        self.assertEqual(self.table().count(b"\n"), 3)
        return err

    def expect_failing_point(self, *options):
        run = self.run_study(self.study("{arguments.name: [a, b], arguments.fail: [0, 1]}"), *options)
        self.assertEqual(run.returncode, 1, run.stderr)
        self.assertIn("1 of 2 failed:\n", run.stderr)
        self.assertIn("arguments.fail 1: exited with status 3; its output is in ", run.stderr)
        self.assertIn("    | the last words of a program\n", run.stderr)
        failed = json.loads((self.out / "study.json").read_text())["failed"]
        self.assertEqual([point["failure"] for point in failed], ["exited with status 3"])
        self.assertEqual(self.table().count(b"\n"), 2)

    def expect_refused(self, status, text, *options, env=None, file=None):
        run = self.run_study(file or self.study("{clusters: [1]}"), *options, env=env)
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertIn(text, run.stderr)


class Here(Study):
    def setUp(self):
        self.prepare(None)
        self.addCleanup(shutil.rmtree, self.folder)

    def test_the_table_is_the_same(self):
        self.expect_the_same_table("--on", "parallel")
        self.assertEqual(self.tasks_are_there(), 4, "what waits for another point is in its task")
        again = self.run_study(str(self.folder / "real.yaml"), "--on", "parallel", env={**self.environment, "PATH": ""})
        self.assertEqual(again.returncode, 0, "nothing is left: nobody is needed")

    def test_a_failing_point(self):
        self.expect_failing_point("--on", "parallel")

    def test_killed_and_resumed(self):
        file, run = self.start_held("--on", "parallel", "--jobs", "2")
        run.kill()
        finish(run)
        self.expect_nothing_left()
        self.expect_resumed(file, "--on", "parallel")

    def test_interrupted(self):
        file, run = self.start_held("--on", "parallel", "--jobs", "2")
        run.send_signal(signal.SIGINT)
        _, err = finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("interrupted; 1 of 2 are finished, and the same command runs the rest", err)
        self.assertEqual(self.table().count(b"\n"), 2)
        self.expect_nothing_left()
        self.expect_resumed(file)

    def test_a_task_that_is_killed(self):
        _, run = self.start_held("--on", "parallel", "--jobs", "2")
        for task in processes_of("braid", str(self.out / "tasks/1.json")):
            with contextlib.suppress(ProcessLookupError):  # its children die with it
                os.kill(task, signal.SIGKILL)
        _, err = finish(run)
        self.assertEqual(run.returncode, 1, err)
        self.assertIn("task 1 was killed by signal 9 (Killed); of its points these have no result: ", err)
        self.expect_nothing_left()

    def test_two_tasks_do_not_run_a_point_at_once(self):
        file, run = self.start_held("--on", "parallel", "--jobs", "2")
        second = subprocess.Popen([f"{BIN}/braid", "study", str(self.out / "tasks/1.json"), "--task"], env=self.with_engine,
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(second.kill)
        _, err = finish(second)
        self.assertEqual(second.returncode, 78)
        self.assertIn("a process of an earlier study still runs this point", err)
        self.assertEqual(self.began(), [])
        (self.folder / "gate").touch()
        self.assertEqual((finish(run)[0], run.returncode), ("", 0), file)

    def test_what_is_refused(self):
        self.expect_refused(64, "--on moon: allowed: local, slurm, parallel", "--on", "moon")
        self.expect_refused(64, "--hosts is of --on parallel", "--hosts", "a")
        self.expect_refused(64, "--sbatch is of --on slurm", "--on", "parallel", "--sbatch", "-n1")
        self.expect_refused(73, "--on slurm: sbatch is in no folder of PATH", "--on", "slurm",
                            env={**self.with_engine, "PATH": str(self.folder)})
        self.expect_refused(73, "install GNU parallel (Debian's package parallel)", "--on", "parallel",
                            env={**self.with_engine, "PATH": str(self.folder)})
        script(self.folder / "parallel", "echo parallel of moreutils\n")
        self.expect_refused(73, "is another one of that name", "--on", "parallel",
                            env={**self.with_engine, "PATH": str(self.folder)})
        live = pathlib.Path(self.study("{clusters: [1]}"))
        live.write_text(live.read_text() + "engine: live\n")
        self.expect_refused(64, "has 'engine: live', and live runs are timed alone on this host", "--on", "parallel",
                            file=str(live))

    def test_a_task_of_another_braid(self):
        file, run = self.start_held("--on", "parallel", "--jobs", "2")
        (self.folder / "gate").touch()
        finish(run)
        task = self.out / "tasks/0.json"
        for key, value, text in (("braid", "0.1", "the one that has begun the study is 0.1; give all hosts the same"),
                                 ("points", [], "")):
            json_of = json.loads(task.read_text())
            json_of[key] = value
            other = self.out / "tasks/other.json"
            other.write_text(json.dumps(json_of))
            end = self.braid.run(str(other), "--task", env=self.with_engine)
            self.assertEqual(end.returncode, 78 if text else 0, end.stderr)
            self.assertIn(text, end.stderr)
        end = self.braid.run(str(task), "--task", env=self.environment)  # the engine is braid itself
        self.assertEqual(end.returncode, 78)
        self.assertIn("the file of the command braid has other contents than where the study was begun", end.stderr)
        end = self.braid.run(str(self.out / "tasks/7.json"), "--task", env=self.with_engine)
        self.assertIn("must be on a file system that all hosts share", end.stderr)
        self.assertEqual(end.returncode, 78, file)


@unittest.skipIf(ssh_network.missing(), ssh_network.missing())
class BySsh(Study):
    @classmethod
    def setUpClass(cls):
        cls.make_folders()
        cls.network = ssh_network.SshNetwork(cls.base, HOSTS, cls.hidden)
        cls.addClassCleanup(cls.network.remove)

    def setUp(self):
        self.prepare(self.base, ["ip", "netns", "exec", self.network.command])
        self.on = ["--on", "parallel", "--hostfile", str(self.base / "hosts"), "--ssh", self.network.ssh]

    def test_the_table_is_the_same(self):
        self.expect_the_same_table(*self.on)
        hosts = {line.split("\t")[1] for line in (self.out / "tasks/joblog").read_text().splitlines()[1:]}
        self.assertEqual(hosts, {"node1", "node2"})

    def test_killed_and_resumed(self):
        file = self.folder / "long.yaml"
        file.write_text(REAL.replace("--iterations, 1]", "--iterations, 1000000]"))
        runs = lambda host: self.network.runs_in(host, "braid")
        for victim in ("ssh", "braid"):
            run = self.braid.start(str(file), "-o", str(self.out), *self.on)
            self.addCleanup(run.kill)
            self.assertTrue(wait_until(lambda: all(len(runs(host)) > 1 for host in self.network.hosts)))
            while victim == "ssh" and run.poll() is None:
                self.network.kill(self.network.command, victim)
            run.kill()
            _, err = finish(run)
            self.assertTrue(wait_until(lambda: not any(map(runs, self.network.hosts)), 20), "left on the hosts")
            if victim == "ssh":
                self.assertEqual(run.returncode, 1, err)
                self.assertRegex(err, r"task [01] on node[12] (was killed by signal 9|exited with status (137|255))")
        file.write_text(REAL)
        run = self.run_study(str(file), *self.on, env=self.environment)
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_hosts_are_asked_before(self):
        options = ["--on", "parallel", "--ssh", self.network.ssh, "--hosts"]
        self.expect_refused(73, "host nowhere: ssh exited with status 255\n    | ssh: ", *options, "node1,nowhere")
        hidden = pathlib.Path(tempfile.mkdtemp(dir=self.hidden))
        run = self.run_study(self.study("{clusters: [1]}"), *options, "node1,node2", out=hidden, env=self.environment)
        self.assertEqual(run.returncode, 73)
        self.assertNotIn("host node1", run.stderr)
        self.assertIn("host node2: ssh exited with status 78\n", run.stderr)
        self.assertIn("must be on a file system that all hosts share", run.stderr)


@unittest.skipIf(slurm_network.missing(), slurm_network.missing())
class BySlurm(Study):
    @classmethod
    def setUpClass(cls):
        cls.make_folders()
        cls.network = slurm_network.SlurmNetwork(cls.base, HOSTS, cls.hidden)
        cls.addClassCleanup(cls.network.remove)
        cls.network.wait_or_skip()

    def setUp(self):
        self.prepare(self.base, self.network.before, self.network.environment)
        self.on = ["--on", "slurm"]

    def slurm(self, *words):
        return subprocess.run([*self.network.before, *words], env=self.environment, check=True, capture_output=True,
                              text=True).stdout

    def jobs(self):
        return self.slurm("squeue", "--noheader", "--array", "--format=%F_%K").split()

    def test_the_table_is_the_same(self):
        run = self.expect_the_same_table(*self.on)
        self.assertEqual(self.tasks_are_there(), 3, "several points in a task: no array has more than MaxArraySize")
        self.assertIn(" of 3 tasks", run.stderr)

    def test_a_task_that_fails_and_one_that_is_cancelled(self):
        _, run = self.start_held(*self.on, fails=True)
        [task] = [job for job in self.jobs() if job.endswith("_1")]  # others may be about to end
        self.slurm("scancel", task)
        _, err = finish(run)
        self.assertEqual(run.returncode, 1, err)
        self.assertRegex(err, r"braid study: task 1 on node\d was cancelled; of its points these have no result: .*hold 1, .*\n")
        self.assertRegex(err, r"its output, .*/tasks/1.log, ends\n(    \| .*\n)*    \| .*CANCELLED")
        self.assertLess(err.index("was cancelled"), err.index("2 of 3 failed"), "what failed as a whole comes first")
        self.assertIn("fail 1: exited with status 3; its output is in ", err)
        self.assertEqual(self.table().count(b"\n"), 2)
        self.expect_nothing_left()

    def test_killed_and_resumed(self):
        file, run = self.start_held(*self.on)
        run.kill()
        finish(run)
        self.assertTrue([job for job in self.jobs() if job.endswith("_1")], "Slurm's tasks live on")
        resumed = self.expect_resumed(file)  # here: whatever continues the study ends them
        self.assertIn("cancelling the tasks of an earlier command", resumed)
        self.assertEqual(self.jobs(), [])

    def test_interrupted(self):
        file, run = self.start_held(*self.on)
        run.send_signal(signal.SIGINT)
        _, err = finish(run)
        self.assertEqual(run.returncode, 130, err)
        self.assertIn("interrupted; 1 of 2 are finished, and the same command runs the rest", err)
        self.assertEqual(self.jobs(), [])
        self.expect_nothing_left()
        self.assertNotIn("cancelling", self.expect_resumed(file))

    def test_a_host_that_does_not_see_the_folder(self):
        hidden = pathlib.Path(tempfile.mkdtemp(dir=self.hidden))
        run = self.run_study(self.study("{clusters: [1]}"), *self.on, "--sbatch", "--nodelist=node2", out=hidden)
        self.assertEqual(run.returncode, 1)
        self.assertIn("task 0 on node2 ", run.stderr)
        self.assertIn("it wrote nothing: that host may not see ", run.stderr)

    def test_what_is_refused(self):
        self.expect_refused(73, "the tasks are not accepted: sbatch ", *self.on, "--sbatch", "--partition=none")
        other = self.folder / "slurm.conf"
        other.write_text((self.base / "slurm.conf").read_text() + "SlurmctldPort=9\nMessageTimeout=1\n")
        self.expect_refused(73, "Slurm's controller does not answer", *self.on,
                            env={**self.with_engine, "SLURM_CONF": str(other)})


if __name__ == "__main__":
    if not shutil.which("parallel"):
        print("skipped: parallel is not installed")
        sys.exit(77)
    unittest.main()
