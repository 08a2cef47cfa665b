#!/usr/bin/env python3
"""`braid report` as a command: what it takes and refuses, the commands that it prints, and that its bytes are the same.

    report_files_test.py BIN [unittest arguments]
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

STUDY = """
applications:
  - {application: jacobi, arguments: [--size, 64, --iterations, 3]}
base:
  simulation: {model: alewife-1997}
vary:
  - proxies: [1, 2]
  - simulation.mode: [real, no-contention]
"""


def run(*words, folder=None, shell=False, expect=0):
    words = ["bash", "-c", words[0]] if shell else [BIN / "braid", *words]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False,
                          env={"PATH": f"{BIN}:/usr/bin:/bin"})
    if done.returncode != expect:
        raise AssertionError(f"{words}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def embedded(page, name):
    text = re.search(f'<script type="application/json" id="{name}">(.*?)</script>', page)[1]
    return json.loads(text)


class Report(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.folder = pathlib.Path(place.name)
        (cls.folder / "small.yaml").write_text(STUDY)
        run("study", "small.yaml", "-o", "out", folder=cls.folder)

    def page(self, *words):
        run("report", *words, "-o", "page.html", folder=self.folder)
        return (self.folder / "page.html").read_text()

    def refusal(self, *words, status):
        return run("report", *words, folder=self.folder, expect=status).stderr

    def needs_same_runs(self, report):
        if not report["deterministic"]:
            self.skipTest("programs are not charged by the compiler plug-in")

    # --- Where it reads and writes

    def test_it_reads_standard_input_and_writes_standard_output(self):
        run("sim", "--quiet", "--report", "run.json", "jacobi", "--size", "64", folder=self.folder)
        page = run(f"'{BIN}/braid' report - -o - < run.json", shell=True, folder=self.folder).stdout
        self.assertEqual(embedded(page, "point-0-run")["command"], ["jacobi", "--size", "64"])
        study = run(f"'{BIN}/braid' study - -o from_input < small.yaml && '{BIN}/braid' report from_input -o -", shell=True, folder=self.folder).stdout
        self.assertEqual(embedded(study, "report-data")["sources"][0]["csv"], (self.folder / "out" / "points.csv").read_text())

    def test_it_writes_over_nothing_that_it_reads(self):
        run("sim", "--quiet", "--report", "run.json", "--trace", "run.jsonl", "jacobi", "--size", "64", folder=self.folder)
        before = (self.folder / "run.json").read_bytes()
        for words in (("run.json", "-o", "./run.json"), ("run.json", "--trace", "run.jsonl", "-o", "run.jsonl")):
            self.assertIn("is what the page is made of; name another file", self.refusal(*words, status=64))
        self.assertEqual((self.folder / "run.json").read_bytes(), before)

    def test_a_damaged_table_is_refused(self):
        shutil.copytree(self.folder / "out", self.folder / "damaged")
        table = self.folder / "damaged" / "points.csv"
        whole = table.read_bytes()
        for text in (whole[:-20], whole[:whole.rindex(b"\n", 0, -1) + 1], b"\x00\xff\n" * 5, whole + whole[-30:]):
            table.write_bytes(text)
            self.assertIn("points.csv: is not the table of the points in study.json; let 'braid study' write it again",
                          self.refusal("damaged", "-o", "page.html", status=78))
        table.write_bytes(b"")
        self.assertIn("points.csv: is empty", self.refusal("damaged", "-o", "page.html", status=78))

    def test_three_sources_are_refused(self):
        self.assertIn("takes one source, or two side by side; 3 are named", self.refusal("out", "out", "out", "-o", "page.html", status=64))
        self.assertIn("can be read once", self.refusal("-", "-", "-o", "page.html", status=64))

    # --- What it has

    def test_it_has_the_study_and_the_table_as_they_are(self):
        page = self.page("out")
        source, = embedded(page, "report-data")["sources"]
        self.assertEqual(source["csv"], (self.folder / "out" / "points.csv").read_text())
        self.assertEqual(source["text"], STUDY)
        self.assertEqual(source["command"], "braid study small.yaml -o small")

    def test_the_command_of_a_point_repeats_it(self):
        page = self.page("out")
        points = json.loads((self.folder / "out" / "study.json").read_text())["points"]
        self.assertEqual({p["settings"]["simulation.mode"] for p in points}, {"real", "no-contention"})
        for point in points:
            with self.subTest(point=point["settings"]):
                command = embedded(page, f"point-0-{point['point']}")["repeat"]
                again = command.replace("braid sim", "braid sim --quiet --report again.json", 1)
                run(again, folder=self.folder, shell=True)
                report = json.loads((self.folder / "again.json").read_text())
                self.needs_same_runs(report)
                self.assertEqual(report["trace_hash"], point["report"]["trace_hash"])

    def test_the_command_of_a_run_repeats_it(self):
        run("sim", "--clusters", "2", "--compute", "1", "--loss", "0.01", "--report", "run.json", "jacobi", "--size", "64", folder=self.folder)
        command = embedded(self.page("run.json"), "point-0-run")["repeat"]
        run(command.replace("braid sim", "braid sim --report again.json", 1), folder=self.folder, shell=True)
        one, other = (json.loads((self.folder / name).read_text()) for name in ("run.json", "again.json"))
        self.needs_same_runs(one)
        self.assertEqual(one["trace_hash"], other["trace_hash"])

    def test_the_command_of_a_live_run_repeats_it(self):
        run("run", "--clusters", "2", "--compute", "1", "--loss", "0.01", "--report", "live.json", "jacobi", "--size", "64", folder=self.folder)
        command = embedded(self.page("live.json"), "point-0-run")["repeat"]
        run(command.replace("braid run", "braid run --report again.json", 1), folder=self.folder, shell=True)
        one, other = (json.loads((self.folder / name).read_text()) for name in ("live.json", "again.json"))
        self.assertEqual(one["configuration"], other["configuration"])

    def test_a_window_of_a_trace(self):
        run("sim", "--clusters", "2", "--compute", "1", "--report", "run.json", "--trace", "run.jsonl", "jacobi", "--size", "64", folder=self.folder)
        lines = [json.loads(line) for line in (self.folder / "run.jsonl").read_text().splitlines()]
        middle = lines[len(lines) // 2]
        trace = embedded(self.page("run.json", "--trace", "run.jsonl", "--window", f"{middle['handed']}:{middle['delivered']}"), "trace-0-run")
        inside = [m["message"] for m in lines if m["handed"] < middle["delivered"] and m["delivered"] >= middle["handed"]]
        self.assertEqual([row[0] for row in trace["messages"]], inside)
        self.assertLess(len(inside), len(lines))
        self.assertEqual(trace["omitted"], len(lines) - len(inside))
        whole = embedded(self.page("run.json", "--trace", "run.jsonl", "--window", ":"), "trace-0-run")
        self.assertEqual(len(whole["messages"]), len(lines))
        for line in lines:
            self.assertTrue(line["kinds"], line)

    def test_a_trace_of_a_point(self):
        name = json.loads((self.folder / "out" / "study.json").read_text())["points"][0]["point"]
        command = embedded(self.page("out"), f"point-0-{name}")["repeat"]
        run(command.replace("braid sim", "braid sim --trace point.jsonl", 1), folder=self.folder, shell=True)
        page = self.page("out", "--trace", f"{name}=point.jsonl")
        self.assertGreater(len(embedded(page, f"trace-0-{name}")["messages"]), 10)
        self.assertIn("has no point 'abc'", self.refusal("out", "-o", "x.html", "--trace", "abc=point.jsonl", status=78))
        self.assertIn("which of the study's points", self.refusal("out", "-o", "x.html", "--trace", "point.jsonl", status=78))

    def test_words_of_a_program_cannot_leave_the_data(self):
        run("sim", "--clusters", "1", "--report", "run.json", "jacobi", "--size", "32", folder=self.folder)
        report = json.loads((self.folder / "run.json").read_text())
        report["command"].append("</script><script>alert(1)</script><!--")
        (self.folder / "run.json").write_text(json.dumps(report))
        page = self.page("run.json")
        self.assertNotIn("alert(1)</script>", page)
        self.assertEqual(embedded(page, "point-0-run")["command"], report["command"])

    # --- The same bytes

    def test_the_same_study_elsewhere_gives_the_same_bytes(self):
        other = self.folder / "elsewhere"
        other.mkdir()
        shutil.copy(self.folder / "small.yaml", other)
        run("study", "small.yaml", "-o", "results", "--jobs", "1", folder=other)
        self.needs_same_runs(json.loads((other / "results" / "study.json").read_text())["points"][0]["report"])
        for table in ("points.csv", "queues.csv"):
            self.assertEqual((self.folder / "out" / table).read_bytes(), (other / "results" / table).read_bytes(), table)
        run("report", "results", "-o", "page.html", folder=other)
        self.assertEqual(self.page("out"), (other / "page.html").read_text())

    def test_a_dash_is_standard_output(self):
        self.assertEqual(run("report", "out", "-o", "-", folder=self.folder).stdout, self.page("out"))
        (self.folder / "there").write_text("before\n")
        command = "braid sim --quiet --clusters 1 --report - jacobi --size 32 >> there"
        run(command, folder=self.folder, shell=True)
        before, text = (self.folder / "there").read_text().split("\n", 1)
        self.assertEqual(before, "before")
        self.assertEqual(json.loads(text[text.index("\n{") :])["config"]["clusters"], 1)

    # --- What it refuses

    def test_wrong_usage_is_refused_with_the_cure(self):
        self.assertIn("name the page's file", self.refusal("out", status=64))
        self.assertIn("one source", self.refusal("out", "out", "-o", "x.html", "--trace", "run.jsonl", status=64))
        self.assertIn("--trace", self.refusal("out", "-o", "x.html", "--window", "1:2", status=64))
        for window in ("1", "x:2", "5:5", "-1:4", "3:2", "1:2:3"):
            with self.subTest(window=window):
                self.assertIn("FROM:UNTIL", self.refusal("out", "-o", "x.html", "--trace", "run.jsonl", f"--window={window}", status=64))

    def test_what_is_no_source_is_named(self):
        empty = self.folder / "empty"
        empty.mkdir(exist_ok=True)
        self.assertIn("braid study", self.refusal("empty", "-o", "x.html", status=78))
        self.assertIn("nowhere.json", self.refusal("nowhere.json", "-o", "x.html", status=78))
        for text, words in (("{", "no JSON"), ("[]", "neither"), ("{}", "neither"), ('{"cycles_per_second": 1}', "'parallel_cycles'"),
                            ('{"clusters": [{}], "wall_seconds": 1, "configuration": {}}', "'proxies'")):
            with self.subTest(text=text):
                (self.folder / "bad.json").write_text(text)
                self.assertIn(words, self.refusal("bad.json", "-o", "x.html", status=78))
        self.assertFalse((self.folder / "x.html").exists())

    def test_damaged_tables_of_live_runs_are_named(self):
        bad = self.folder / "live"
        shutil.copytree(self.folder / "out", bad, dirs_exist_ok=True)
        good = {"processors": 2, "repetitions": 1, "missing": 0, "failed": [], "refused": [], "only_simulated": []}
        columns = "application,arguments,clusters,oversubscribed,parallel_ns,runs\n"
        for summary, runs, medians, words in (({}, columns, columns, "live.json: has no 'processors'"),
                                              ({**good, "refused": [3]}, columns, columns, "live.json: has no 'refused'"),
                                              (good, "application\n", columns, "in live.csv as this version"),
                                              (good, columns, "a,b\n", "in live_medians.csv as this version"),
                                              (good, columns, None, "live_medians.csv: cannot be read")):
            with self.subTest(words=words):
                (bad / "live.json").write_text(json.dumps(summary))
                (bad / "live.csv").write_text(runs)
                (bad / "live_medians.csv").unlink(missing_ok=True)
                if medians is not None:
                    (bad / "live_medians.csv").write_text(medians)
                self.assertIn(words, self.refusal("live", "-o", "x.html", status=78))

    def test_a_damaged_table_of_mean_value_analysis_is_named(self):
        bad = self.folder / "mva"
        shutil.copytree(self.folder / "out", bad, dirs_exist_ok=True)
        (bad / "mva.csv").write_text("application,arguments,clusters\n")
        self.assertIn("mva.csv: has no columns ',message_cycles,mva_message_cycles,", self.refusal("mva", "-o", "x.html", status=78))
        (bad / "mva.csv").unlink()  # of an earlier version
        self.page("mva")

    def test_a_damaged_study_is_named(self):
        study = json.loads((self.folder / "out" / "study.json").read_text())
        bad = self.folder / "bad"
        shutil.copytree(self.folder / "out", bad, dirs_exist_ok=True)
        damages = [("'nodes'", lambda p: p["report"].pop("nodes")), ("'messages'", lambda p: p["report"].update(messages=3)),
                   ("'queue_over_time'", lambda p: p["report"]["proxies"].append({"queue_over_time": {"interval_cycles": 1, "mean": "x"}})),
                   ("'phases'", lambda p: p["report"].update(phases={"sent": {"diff": ["x"]}})),
                   ("'waits'", lambda p: p["report"].update(waits={"pages": [3]})), ("no name", lambda p: p.update(point="../x"))]
        for words, damage in damages:
            with self.subTest(words=words):
                changed = json.loads(json.dumps(study))
                damage(changed["points"][0])
                (bad / "study.json").write_text(json.dumps(changed))
                self.assertIn(words, self.refusal("bad", "-o", "x.html", status=78))

    def test_a_trace_that_is_none_is_named_with_its_line(self):
        run("sim", "--clusters", "2", "--report", "run.json", "--trace", "run.jsonl", "jacobi", "--size", "32", folder=self.folder)
        text = (self.folder / "run.jsonl").read_text()
        (self.folder / "cut.jsonl").write_text(text[:-20])
        self.assertIn(f"cut.jsonl:{text.count(chr(10))}", self.refusal("run.json", "-o", "x.html", "--trace", "cut.jsonl", status=78))

    def test_a_page_that_cannot_be_written_is_named(self):
        self.assertIn("nowhere", self.refusal("out", "-o", "nowhere/x.html", status=73))


class StudyTable(unittest.TestCase):
    def test_the_command_prints_the_tables_of_the_script(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "small.yaml").write_text(STUDY)
            run("study", "small.yaml", "-o", "out", folder=folder)
            table = run("study", "table", "out", "--figure", "messages", folder=folder).stdout.splitlines()
            self.assertEqual(table[0], "| program | simulation.mode | proxies 1 | proxies 2 |")
            self.assertEqual([line.split(" | ")[1] for line in table[2:]], ["real", "no-contention"])
            self.assertIn("name the folder", run("study", "table", "nowhere", folder=folder, expect=2).stderr)

    def test_a_study_of_that_name_is_still_a_study(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "table").write_text(STUDY)
            listed = run("study", "./table", "--list", folder=folder)
            self.assertEqual(len(listed.stdout.splitlines()), 4)
            self.assertIn("4 points; 4 left", listed.stderr)


class SimulationReport(unittest.TestCase):
    """What the report of a simulation says of messages and of waiting."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            run("sim", "--clusters", "2", "--compute", "2", "--report", "r.json", "--trace", "r.jsonl", "water", "--molecules", "27", folder=folder)
            cls.report = json.loads(pathlib.Path(folder, "r.json").read_text())
            cls.trace = [json.loads(line) for line in pathlib.Path(folder, "r.jsonl").read_text().splitlines()]

    def test_messages_by_phase_are_those_of_the_clusters(self):
        phases = self.report["phases"]["sent"]
        for kind, counts in phases.items():
            whole = sum(c["cluster_counts"]["sent_" + kind] for c in self.report["clusters"])
            # The clusters' counts include what was sent outside parallel().
            self.assertLessEqual(sum(counts), whole, kind)
        for kind in ("lock_request", "lock_grant", "diff"):
            self.assertEqual(sum(phases[kind]), sum(c["cluster_counts"]["sent_" + kind] for c in self.report["clusters"]))
        arrivals = [kind in phases and phases[kind] for kind in ("barrier_arrive", "barrier_depart")]
        # The only other cluster arrives once at each barrier, in the phase that ends with it.
        self.assertEqual(set(arrivals[0][1:-1]) | set(arrivals[1][1:-1]), {self.report["phases"]["barriers_each"]})

    def test_a_trace_names_kinds(self):
        for kind in self.report["phases"]["sent"]:
            carried = sum(kind in m["kinds"] for m in self.trace)
            self.assertGreater(carried, 0, kind)
            self.assertLessEqual(carried, sum(self.report["phases"]["sent"][kind]) + 16)

    def test_waits_add_up_to_what_nodes_waited(self):
        waits, nodes = self.report["waits"], self.report["nodes"]
        for what, of_nodes in (("pages", "faults"), ("locks", "locks")):
            whole = sum(node[of_nodes] for node in nodes)
            named = sum(wait["cycles"] for wait in waits[what])
            self.assertGreater(named, 0)
            self.assertLessEqual(named, whole + 1000)
            for wait in waits[what]:
                self.assertLessEqual(abs(sum(node["cycles"] for node in wait["nodes"]) - wait["cycles"]), 8)
                self.assertLessEqual(wait["longest"] * 1, wait["cycles"] + 1)
            self.assertEqual(waits[what], sorted(waits[what], key=lambda wait: -wait["cycles"]))
        # All of Water's pages and locks here are among those that are listed.
        self.assertGreater(sum(w["cycles"] for w in waits["pages"]), 0.9 * sum(node["faults"] for node in nodes))

    def test_settings_that_were_given(self):
        self.assertEqual(self.report["given"], {"clusters": 2, "compute": 2})


if __name__ == "__main__":
    sys.argv = sys.argv[:1] + sys.argv[2:]
    unittest.main()
